/* The commands. Each takes its own argument vector (argv[0] is its name) and returns 0 or the exit
 * status, OPTIONS_HELPED, or -1 with the message set, for main to print. Only commands print, and
 * only they end the program. */
#ifndef POSEIDON_COMMANDS_COMMANDS_H
#define POSEIDON_COMMANDS_COMMANDS_H

#include <mpi.h>
#include <stdbool.h>

#include "util/watchdog.h"
#include "util/strbuf.h"

int command_train(int argc, char **argv);
int command_test(int argc, char **argv);
int command_time(int argc, char **argv);
int command_summary(int argc, char **argv);
int command_upgrade(int argc, char **argv);
int command_classify(int argc, char **argv);
int command_extract(int argc, char **argv);
int command_convert(int argc, char **argv);
int command_device_query(int argc, char **argv);
int command_plan(int argc, char **argv);
int command_mean(int argc, char **argv);

int command_doctor(int argc, char **argv);

/* Kinds of convert; argv[0] is "images" or "weights". */
int command_convert_images(int argc, char **argv);
int command_convert_weights(int argc, char **argv);

/* Prints version, commit, libraries and build flags; returns 0. */
int command_version(void);

/* Appends the lines of command_version, "NAME  VALUE". */
void version_put(struct strbuf *out);

/* Starts MPI for a command that uses MPI from one thread at a time; *status is the result of
 * parsing the command line. All ranks go on, or none. Fails if the launcher (srun, or another
 * MPI's) started single processes instead of one job. If programs or commands (argv[0]) of the
 * ranks differ, prints this once and ends the process; reports differences in `alike` and errors of
 * single ranks, too. Returns false if the command is over, with exit status *status; --help alone
 * needs no MPI. watch: limits of waits between ranks from now on (util/watchdog.h); NULL: no
 * limits. Frees `alike`. Collective. */
bool command_start(int *argc, char ***argv, int *status, struct strbuf *alike,
                   const struct watchdog_options *watch);

/* Ends a command on all ranks; after a failure rank 0 prints the message. in_flight: transfers may
 * be unfinished, so MPI is aborted, not finalized. Returns the exit status. Collective. */
int command_end_mpi(const char *command, int status, bool in_flight);

#endif
