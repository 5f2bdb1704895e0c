/* Compares the affinity masks of a machine's ranks. A launcher may bind each rank to cores of its
 * own or let all ranks share them, and a batch system may allow only some cores.
 *
 * A thread inherits the mask of the thread that starts it, so only cores_enter sets masks. */
#define _GNU_SOURCE
#include "job/cores.h"

#include "util/agree.h"
#include "util/ranks.h"
#include "util/alloc.h"
#include "util/units.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <string.h>

#ifdef _OPENMP
#include <omp.h>
#endif

static int last_of(const cpu_set_t *set)
{
    int last = CPU_SETSIZE - 1;

    while (last > 0 && !CPU_ISSET(last, set))
        last--;
    return last;
}

static bool overlap(const cpu_set_t *a, const cpu_set_t *b)
{
    cpu_set_t both;

    CPU_AND(&both, a, b);
    return CPU_COUNT(&both) > 0;
}

/* Prints a list such as "0-3,8". */
static void print_list(const cpu_set_t *set, char *text, size_t size)
{
    text[0] = '\0';
    for (int c = 0; c < CPU_SETSIZE; c++) {
        int last = c;

        if (!CPU_ISSET(c, set))
            continue;
        while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set))
            last++;
        buffer_printf(text, size, last > c ? "%s%d-%d" : "%s%d", *text ? "," : "", c, last);
        c = last;
    }
}

void cores_divide(const cpu_set_t *masks, int ranks, int mine, int online, struct cores *cores)
{
    double share = 0;
    cpu_set_t used;

    *cores = (struct cores){.allowed = CPU_COUNT(&masks[mine])};
    CPU_ZERO(&used);
    for (int r = 0; r < ranks; r++) {
        CPU_OR(&used, &used, &masks[r]);
        cores->sharers += r == mine || overlap(&masks[r], &masks[mine]);
    }
    for (int c = 0; c < CPU_SETSIZE; c++) {
        int sharers = 0;

        for (int r = 0; r < ranks && CPU_ISSET(c, &masks[mine]); r++)
            sharers += CPU_ISSET(c, &masks[r]) ? 1 : 0;
        share += sharers ? 1.0 / sharers : 0;
    }
    cores->threads = share + 1e-6 >= 1 ? (int)(share + 1e-6) : 1;
    cores->idle = online > CPU_COUNT(&used) ? online - CPU_COUNT(&used) : 0;
    for (int use = 0; use < CORES_USES; use++)
        cores->set[use] = masks[mine];
    print_list(&masks[mine], cores->list, sizeof cores->list);
}

/* ---- this process ---- */

static cpu_set_t find_mask(void)
{
    cpu_set_t mask;

    CPU_ZERO(&mask);
    if (sched_getaffinity(0, sizeof mask, &mask) || CPU_COUNT(&mask) == 0)
        CPU_SET(0, &mask);
    return mask;
}

/* Returns true if OpenMP binds its threads, of which the calling thread is the first. *set then
 * gets OpenMP's places, the cores that the rank may run on. */
static bool find_places(cpu_set_t *set)
{
    bool any = false;

#ifdef _OPENMP
    long cores = sysconf(_SC_NPROCESSORS_CONF); /* OMP_PLACES may name cores that do not exist */

    if (omp_get_proc_bind() == omp_proc_bind_false)
        return false;
    for (int p = 0; p < omp_get_num_places(); p++) {
        int count = omp_get_place_num_procs(p);
        int *ids = alloc_array((size_t)count + 1, sizeof *ids, "cores");

        if (!ids)
            return false;
        omp_get_place_proc_ids(p, ids);
        for (int i = 0; i < count; i++) {
            if (ids[i] < 0 || ids[i] >= cores || ids[i] >= CPU_SETSIZE)
                continue;
            if (!any)
                CPU_ZERO(set);
            any = true;
            CPU_SET(ids[i], set);
        }
        free(ids);
    }
#else
    (void)set;
#endif
    return any;
}

int cores_find(MPI_Comm world, const struct topology *topology, struct cores *out)
{
    cpu_set_t here = find_mask(), mine = here, *masks;
    bool bound = find_places(&mine);
    int n = 0, status = error_agree(world, ALLOC(masks, topology->nranks, "masks of cores"));

    *out = (struct cores){.threads = 1};
    if (!status)
        status = MPI_STATUS(MPI_Allgather(&mine, (int)sizeof mine, MPI_BYTE, masks,
                                          (int)sizeof mine, MPI_BYTE, world));
    for (int r = 0; r < topology->nranks && !status; r++)
        if (topology->machine[r] == topology->machine[topology->rank])
            masks[n++] = masks[r];
    if (!status) {
        cores_divide(masks, n, topology->local_rank, (int)sysconf(_SC_NPROCESSORS_ONLN), out);
        out->bound = bound;
        out->set[CORES_COMPUTE] = here;
    }
    free(masks);
    return status;
}

int cores_place(struct cores *cores, int threads)
{
    int keep = cores->sharers == 1 && cores->allowed >= CORES_KEEP_FROM ? 1 : 0;
    int compute = threads > 0 ? threads : cores->threads - keep,
        last = last_of(&cores->set[CORES_ALL]);

    if (cores->bound || cores->sharers > 1 || cores->allowed <= compute)
        return threads > 0 ? threads : cores->threads;
    cores->placed = true;
    CPU_CLR(last, &cores->set[CORES_COMPUTE]);
    CPU_ZERO(&cores->set[CORES_WIRE]);
    CPU_SET(last, &cores->set[CORES_WIRE]);
    return compute;
}

void cores_enter(const struct cores *cores, enum cores_use use)
{
    if (cores->placed || cores->bound) /* fails if the process has lost cores meanwhile */
        (void)sched_setaffinity(0, sizeof cores->set[use], &cores->set[use]);
}

void cores_enter_team(const struct cores *cores, int threads)
{
    cores_enter(cores, CORES_COMPUTE);
#ifdef _OPENMP
    if (!cores->placed)
        return; /* nothing to bind, or OpenMP has bound all threads */
    if (threads < 1)
        threads = omp_get_max_threads();
#pragma omp parallel num_threads(threads)
    cores_enter(cores, CORES_COMPUTE);
#else
    (void)threads;
#endif
}

/* ---- descriptions ---- */

/* If OpenMP binds threads, lists all cores: set[CORES_COMPUTE] is then the calling thread's
 * core. */
void cores_list(const struct cores *cores, enum cores_use use, char text[CORES_TEXT_BYTES])
{
    print_list(&cores->set[cores->bound ? CORES_ALL : use], text, CORES_TEXT_BYTES);
}

void cores_list_machine(const char *lists, size_t stride, const struct topology *topology,
                        int machine, struct strbuf *out)
{
    const char *before = "";

    for (int r = 0; r < topology->nranks; r++) {
        const char *list = lists + (size_t)r * stride;
        bool skipped = topology->machine[r] != machine;

        for (int b = 0; b < r && !skipped; b++)
            skipped = topology->machine[b] == machine && !strcmp(lists + (size_t)b * stride, list);
        if (skipped)
            continue;
        strbuf_printf(out, "%s%s", before, list);
        before = ",";
    }
}

void cores_describe(const struct cores *cores, int threads, char text[CORES_PLACE_BYTES])
{
    char count[32] = "the library's", rest[2 * CORES_TEXT_BYTES] = "", list[CORES_TEXT_BYTES];
    int where = cores->allowed - (cores->placed ? 1 : 0);

    cores_list(cores, CORES_COMPUTE, list);
    if (threads > 0)
        snprintf(count, sizeof count, "%d", threads);
    if (cores->placed)
        snprintf(rest, sizeof rest, ", communication on core %d", last_of(&cores->set[CORES_WIRE]));
    else
        snprintf(rest, sizeof rest, "%s",
                 cores->bound ? ", each where OpenMP's settings bind it" : "");
    if (cores->sharers > 1)
        buffer_printf(rest, sizeof rest, ", which %d ranks share", cores->sharers);
    snprintf(text, CORES_PLACE_BYTES, "%s compute thread%s on core%s %s%s", count,
             threads == 1 ? "" : "s", where == 1 ? "" : "s", list, rest);
}

void cores_list_ranks(const char (*texts)[CORES_PLACE_BYTES], int ranks, struct strbuf *out)
{
    int lines = 0, omitted = 0;
    bool several;

    for (int r = 0; r < ranks; r++) {
        if (!texts[r][0] || ranks_were_said(texts[0], CORES_PLACE_BYTES, r))
            continue;
        if (lines++ >= CORES_LINES) {
            omitted++;
            continue;
        }
        several = ranks_put_alike(out, "Rank", texts[0], CORES_PLACE_BYTES, ranks, r) > 1;
        strbuf_printf(out, "%s%s\n", several ? " each: " : ": ", texts[r]);
    }
    if (omitted)
        strbuf_printf(out, "Ranks on %s of cores: not listed\n",
                      units_count(omitted, "other set").text);
}

int cores_gather(MPI_Comm world, const char text[CORES_PLACE_BYTES], struct strbuf *out)
{
    void *texts;
    int ranks, status = 0;

    MPI_Comm_size(world, &ranks);
    if (agree_gather(world, text, CORES_PLACE_BYTES, "where ranks compute", &texts))
        return -1;
    if (texts) {
        cores_list_ranks(texts, ranks, out);
        status = strbuf_status(out);
    }
    free(texts);
    return error_agree(world, status);
}

void cores_warn(const struct cores *cores, int threads, bool asked, int rank, struct log *log)
{
    char fewer[64] = "fewer ranks, at most one a core";

    if (cores->allowed >= cores->sharers)
        snprintf(fewer, sizeof fewer, "--threads=%d", cores->allowed / cores->sharers);
    if (threads * cores->sharers > cores->allowed)
        LOG_WARNING(log,
                    "%d compute threads of %s take turns on %s, which may be many times slower: "
                    "start with %s",
                    threads * cores->sharers, units_count(cores->sharers, "rank").text,
                    units_count(cores->allowed, "core").text, fewer);
    if (threads == 1 && !asked && cores->threads > 1)
        LOG_WARNING(log,
                    "OMP_NUM_THREADS=1 in the environment, which containers and batch systems set, "
                    "leaves %d of rank %d's %d cores idle: unset it or start with --threads=%d",
                    cores->threads - 1, rank, cores->threads, cores->threads);
    if (cores->allowed == 1 && cores->idle > 0)
        LOG_WARNING(log,
                    "Rank %d is bound to one core for computing, communication and input, while %s "
                    "of the machine %s idle: start with mpirun --bind-to none",
                    rank, units_count(cores->idle, "core").text, cores->idle == 1 ? "is" : "are");
}
