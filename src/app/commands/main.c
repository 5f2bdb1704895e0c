/* poseidon: finds the command and runs it. */
#define _GNU_SOURCE
#include "commands/commands.h"

#include <dlfcn.h>
#include <link.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/command_plan.h"
#include "commands/options.h"
#include "commands/train_options.h"
#include "layers/layer.h"
#include "util/agreement.h"
#include "util/suggest.h"
#include "util/agree.h"
#include "report/build_info.h"
#include "util/error.h"
#include "commands/handshake.h"
#include "util/launcher.h"
#include "util/watchdog.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

struct command {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *help;
    bool ranks; /* runs on several ranks; else each rank would do all of it */
};

static int command_help(int argc, char **argv);

static const struct command commands[] = {
    {"train", command_train, "train a net: mpirun -np N poseidon train --solver=FILE", true},
    {"test", command_test, "score a trained net: poseidon test --model=FILE --weights=FILE", true},
    {"time", command_time, "measure every layer, forward and backward", false},
    {"summary", command_summary, "print a net's table: shapes, parameters, FLOPs", false},
    {"plan", command_plan, "predict schemes and speed-up on any cluster", false},
    {"convert", command_convert, "make data from images; write weights in another form", false},
    {"mean", command_mean, "average the images of a data set, for mean_file and mean_value", false},
    {"classify", command_classify, "print the most likely classes of photographs", false},
    {"extract", command_extract, "write the values of blobs to HDF5", false},
    {"upgrade", command_upgrade, "write an old net or solver, or a model's net, in today's form",
     false},
    {"doctor", command_doctor, "examine MPI, hosts, network and disk of an allocation", true},
    {"device_query", command_device_query, "list GPUs, and what is missing for --engine=cuda",
     false},
    {"help", command_help, "show this, one command's help, 'help layers' or 'help tuning'", false},
};

enum { NCOMMANDS = sizeof commands / sizeof *commands };

static const struct command *find(const char *name)
{
    for (int i = 0; i < NCOMMANDS; i++)
        if (!strcmp(commands[i].name, name))
            return &commands[i];
    return NULL;
}

static int print_usage(FILE *to)
{
    fprintf(to,
            "poseidon %s: distributed training of Caffe networks over MPI\n\n"
            "usage: poseidon COMMAND [OPTIONS]\n\n",
            PACKAGE_VERSION);
    for (int i = 0; i < NCOMMANDS; i++)
        fprintf(to, "  %-12s %s\n", commands[i].name, commands[i].help);
    fprintf(to, "\n'poseidon COMMAND --help' shows a command's options, 'poseidon --version' the\n"
                "libraries of this build; 'man poseidon' is the manual.\n");
    return 0;
}

static int unknown_command(const char *name)
{
    struct suggest suggest = suggest_start(name);

    for (int i = 0; i < NCOMMANDS; i++)
        suggest_offer(&suggest, commands[i].name);
    fprintf(stderr, "poseidon: unknown command '%s'", name);
    if (suggest.nearest)
        fprintf(stderr, "; did you mean '%s'?", suggest.nearest);
    fprintf(stderr, " ('poseidon help' lists all)\n");
    return 1;
}

/* Prints the layer types in columns, then the refused types with reasons. */
static int print_layers(void)
{
    enum { COLUMNS = 3, WIDTH = 26 };
    const char *name, *reason;

    printf("layer types of a net:\n");
    for (int i = 0; (name = layer_type_name(i)) != NULL; i++)
        printf("%s%-*s", i % COLUMNS == 0 ? "\n  " : "", i % COLUMNS < COLUMNS - 1 ? WIDTH : 1,
               name);
    printf("\n\nMemoryData layers have no data here: train, test and extract refuse them;\n"
           "commands that read no data (summary, plan, classify, ...) accept them.\n\nnot "
           "supported:\n\n");
    for (int i = 0; (name = layer_type_refused(i, &reason)) != NULL; i++)
        options_print_entry(name, reason);
    return 0;
}

static int command_help(int argc, char **argv)
{
    char help[] = "--help";

    if (argc < 2 || argv[1][0] == '-')
        return print_usage(stdout);
    if (!strcmp(argv[1], "layers"))
        return print_layers();
    if (!strcmp(argv[1], "tuning"))
        return train_options_print_tuning(), plan_print_tuning(), 0;
    const struct command *command = find(argv[1]);
    if (!command || command->run == command_help)
        return command ? print_usage(stdout) : unknown_command(argv[1]);
    char *arguments[] = {argv[1], help, NULL};
    return command->run(2, arguments);
}

static int command_fail(const char *command)
{
    fprintf(stderr, "poseidon %s: %s\n", command, error_text());
    return 1;
}

/* Compares the ranks' programs and ends the process if they differ: no collective call is safe. */
static void require_same_program(const char *command)
{
    enum handshake result = handshake(MPI_COMM_WORLD, &build_info, command);
    int rank = 0;

    if (result == HANDSHAKE_SAME)
        return;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (result == HANDSHAKE_UNHEARD || rank == 0)
        command_fail(command);
    if (result == HANDSHAKE_UNHEARD)
        MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Finalize();
    exit(1);
}

/* Keeps Open MPI's components in memory. Version 4.1 unloads them in MPI_Finalize while its
 * progress thread may still call PMIx's: a process that ends soon after its start died of
 * signal 11. */
static void keep_components(void)
{
    struct link_map *object = NULL;
    void *program = dlopen(NULL, RTLD_LAZY);

    if (program && dlinfo(program, RTLD_DI_LINKMAP, &object) == 0)
        for (; object; object = object->l_next)
            if (strstr(object->l_name, "/mca_"))
                (void)dlopen(object->l_name, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

/* Returns the number of processes that Open MPI's launcher started, by its variable. 0: not known.
 */
static int launched(const char *variable)
{
    const char *size = getenv(variable);

    return size ? atoi(size) : 0;
}

static int start_mpi(int *argc, char ***argv)
{
    char command[24];
    int level = 0, size = 1, number = 0;

    snprintf(command, sizeof command, "%s", *argc > 0 ? (*argv)[0] : "");
    /* Open MPI would end srun's processes with a page of text each. Only the first one reports. */
    if (launcher_check(false, &number)) {
        if (number > 0)
            exit(1);
        return -1;
    }
    /* Over TCP, Open MPI by default asks the receiver for every large message, and the question
     * queues behind data that the receiver sends. Measured: 4 ranks sending to all others got 0.58
     * of their links; without the question (no "put") 0.88. The user's setting has priority. */
    setenv("OMPI_MCA_btl_tcp_flags", "send,inplace", 0);
    /* A hostfile may give a host more slots than cores: mpirun then lets waiting ranks spin. 4
     * ranks on 2 cores took 1.2 times as long. */
    if (launched("OMPI_COMM_WORLD_LOCAL_SIZE") > sysconf(_SC_NPROCESSORS_ONLN))
        setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    if (MPI_Init_thread(argc, argv, MPI_THREAD_SERIALIZED, &level) != MPI_SUCCESS)
        return error_set("MPI_Init_thread failed");
    keep_components();
    if (level < MPI_THREAD_SERIALIZED)
        return error_set(
            "this MPI library has no MPI_THREAD_SERIALIZED; build it with thread support");
    if (MPI_STATUS(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)))
        return -1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size == 1)
        return launcher_check(true, NULL);
    require_same_program(command);
    return 0;
}

bool command_start(int *argc, char ***argv, int *status, struct strbuf *alike,
                   const struct watchdog_options *watch)
{
    char command[24];
    int parsed = *status;
    bool starts = false;

    snprintf(command, sizeof command, "%s", (*argv)[0]);
    if (parsed > 0 && launched("OMPI_COMM_WORLD_SIZE") < 2) {
        *status = 0;
    } else if (start_mpi(argc, argv)) {
        *status = command_fail(command);
    } else {
        watchdog_step("comparing the ranks' commands");
        if (watch && watchdog_begin(watch))
            parsed = -1;
        *status = agree_alike(MPI_COMM_WORLD, parsed < 0 ? -1 : 0, alike, AGREEMENT_START);
        starts = !*status && !parsed;
        if (!starts)
            *status = command_end_mpi(command, *status, false);
    }
    strbuf_free(alike);
    return starts;
}

/* Seconds that rank 0, after printing an error, waits for the other ranks to end. */
enum { LAST_SECONDS = 30 };

int command_end_mpi(const char *command, int status, bool in_flight)
{
    int rank = 0;

    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (status && rank == 0)
        command_fail(command);
    fflush(NULL);
    watchdog_step("ending");
    if (status && rank == 0) /* other ranks wait longer: rank 0 may still save and report */
        watchdog_change(LAST_SECONDS / 3, LAST_SECONDS, 1);
    watchdog_enter("MPI_Finalize");
    if (status && in_flight) {
        (void)MPI_Barrier(MPI_COMM_WORLD); /* every rank has printed its message */
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Finalize();
    watchdog_end();
    return status ? 1 : 0;
}

/* Fails under mpirun for a command of one rank; only the first rank prints the message. */
static int check_alone(const char *who, const struct command *command)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");

    if (command->ranks || launched("OMPI_COMM_WORLD_SIZE") < 2)
        return 0;
    if (!rank || atoi(rank) == 0)
        fprintf(stderr, "%s: runs on one rank, but %d ranks were started: leave out mpirun\n", who,
                launched("OMPI_COMM_WORLD_SIZE"));
    return 1;
}

/* Fails if standard output could not be written, such as to a full disk. */
static int finish_output(const char *who, int status)
{
    bool failed = ferror(stdout) != 0;

    errno = 0;
    if (failed)
        putchar('\n'); /* repeats the failure to get its errno */
    if (fflush(stdout) == 0 && !failed)
        return status;
    fprintf(stderr, "%s: standard output cannot be written%s%s\n", who, errno ? ": " : "",
            errno ? strerror(errno) : "");
    return status ? status : 1;
}

/* Runs the command. who: prefix of messages. */
static int run_poseidon(const char *who, int argc, char **argv)
{
    int status;

    if (argc < 2) {
        print_usage(stderr);
        return 1;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-help") || !strcmp(argv[1], "-h"))
        return print_usage(stdout);
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-version") || !strcmp(argv[1], "-v") ||
        !strcmp(argv[1], "version"))
        return command_version();
    const struct command *command = find(argv[1]);
    if (!command)
        return unknown_command(argv[1]);
    if (check_alone(who, command))
        return 1;
    status = command->run(argc - 1, argv + 1);
    if (status < 0)
        fprintf(stderr, "%s: %s\n", who, error_text());
    return status < 0 ? 1 : status == OPTIONS_HELPED ? 0 : status;
}

/* Accepts --as=NAME in front for scripts/caffe: NAME is Caffe's tool that the script replaces. */
int main(int argc, char **argv)
{
    const bool named = argc > 1 && !strncmp(argv[1], "--as=", 5);
    char who[64];

    setvbuf(stdout, NULL, _IOLBF, 0); /* keeps the order of lines and log in a file */
    if (named)
        snprintf(who, sizeof who, "%s", argv[1] + 5);
    else
        snprintf(who, sizeof who, "poseidon%s%s", argc > 1 ? " " : "", argc > 1 ? argv[1] : "");
    return finish_output(who, run_poseidon(who, argc - named, argv + named));
}
