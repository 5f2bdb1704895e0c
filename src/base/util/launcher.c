/* The environment variables in which launchers tell a process how many processes they started. */
#include "util/launcher.h"

#include "util/error.h"

#include <stdlib.h>

enum {
    STRANGER = 1, /* MPI learns of this launcher only through a process manager */
    BOTH = 2      /* users also set `tasks`, so `tasks` counts only if `number` is set */
};

struct launcher {
    const char *name;
    const char *tasks;  /* variable: number of processes; NULL: only `number` is known */
    const char *number; /* variable: index of this process */
    const char *advice;
    int about; /* bits STRANGER and BOTH */
};

#define MPIRUN     "use 'mpirun -np N PROGRAM' or srun --mpi=pmix, which start the ranks"
#define OWN_MPIRUN "use the mpirun of the MPI that this program was built with"
#define OWN_PMIX   "use --pmi=pmix, or the mpirun of the Open MPI that this program was built with"
#define OTHER_MPI  "the mpirun of another MPI (MPICH, Intel MPI or the like)"

/* Launchers that may run under another stand before it; PMI_SIZE, which several set, is last. */
static const struct launcher launchers[] = {
    {"torchrun", "WORLD_SIZE", "RANK", MPIRUN, STRANGER | BOTH},
    {"horovodrun", "HOROVOD_SIZE", "HOROVOD_RANK", MPIRUN, 0},
    {"jsrun", "JSM_NAMESPACE_SIZE", "JSM_NAMESPACE_RANK", OWN_MPIRUN, 0},
    {"Open MPI's mpirun", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", OWN_MPIRUN, 0},
    {OTHER_MPI, "MPI_LOCALNRANKS", "MPI_LOCALRANKID", OWN_MPIRUN, 0},
    {"the mpirun of MVAPICH", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", OWN_MPIRUN, 0},
    {"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID",
     "use 'srun --mpi=pmix' ('srun --mpi=list' shows what is there) or mpirun", STRANGER},
    {"flux", "FLUX_JOB_SIZE", "FLUX_TASK_RANK", "use 'flux run -o pmi=pmix', or mpirun", 0},
    {"mpiexec of PALS", "PALS_NRANKS", "PALS_RANKID", OWN_PMIX, BOTH},
    {"mpiexec of PALS", "PMI_SIZE", "PALS_RANKID", OWN_PMIX, BOTH},
    {"mpiexec of PALS", NULL, "PALS_RANKID", OWN_PMIX, 0},
    {"aprun", NULL, "ALPS_APP_PE", OWN_PMIX, 0},
    {OTHER_MPI, "PMI_SIZE", "PMI_RANK", OWN_MPIRUN, 0}};

/* Returns true if the launcher is no error. alone (MPI has started): mpirun started one rank, and
 * the variables are a surrounding job's. Else, before MPI_Init: MPI will learn of the launcher. */
static bool is_excused(bool alone, const struct launcher *launcher)
{
    const char *size = getenv("OMPI_COMM_WORLD_SIZE");

    if (alone)
        return size && atoi(size) == 1;
    return !(launcher->about & STRANGER) || size || getenv("PMIX_RANK") || getenv("PMI_RANK") ||
           getenv("PMI_FD");
}

int launcher_check(bool alone, int *number)
{
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers; i++) {
        const struct launcher *launcher = &launchers[i];
        const char *tasks = launcher->tasks ? getenv(launcher->tasks) : NULL;
        const char *mine = getenv(launcher->number);
        const char *sign = launcher->tasks ? tasks : mine;

        if (!sign || atoi(sign) < (tasks ? 2 : 1) || ((launcher->about & BOTH) && !mine) ||
            is_excused(alone, launcher))
            continue;
        if (number)
            *number = mine ? atoi(mine) : 0;
        return error_set("%s started %s separate programs instead of one job of %s ranks (%s=%s): "
                         "%s; unset %s if this program is to run by itself",
                         launcher->name, tasks ? tasks : "several", tasks ? tasks : "several",
                         tasks ? launcher->tasks : launcher->number, sign, launcher->advice,
                         tasks ? launcher->tasks : launcher->number);
    }
    return 0;
}
