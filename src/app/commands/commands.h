/* The commands: each takes its own argument vector (argv[0] is its name) and returns 0 or the exit
 * status, OPTIONS_HELPED, or -1 with the message set, for main to print. Only here is
 * anything printed, and nowhere else does the program end. */
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

/* The kinds of convert; argv[0] is "images", "weights". */
int command_convert_images(int argc, char **argv);
int command_convert_weights(int argc, char **argv);

/* Prints version, commit, libraries and build flags; returns 0. */
int command_version(void);

/* The same lines, "NAME  VALUE", appended. */
void version_put(struct strbuf *out);

/* Starts MPI for a command whose threads take turns and whose line was parsed with *status: all
 * ranks go on, or none. Fails where the launcher, srun's or another MPI's, started lone processes
 * instead of one job. Where the ranks do not run the same program, or not the same command
 * (argv[0]), it says so once and ends the process; so is said what differs in `alike`, or a mistake
 * that a rank made. false: the command is over, with exit status *status; --help alone needs no
 * MPI. watch: how long ranks wait for each other from here on (util/watchdog.h); NULL: for ever.
 * Frees `alike`. Collective. */
bool command_start(int *argc, char ***argv, int *status, struct strbuf *alike,
                   const struct watchdog_options *watch);

/* Ends a command on all ranks: after a failure rank 0 prints the message. in_flight: transfers may
 * be unfinished, so MPI cannot be closed in an orderly way. Returns the exit status. Collective. */
int command_end_mpi(const char *command, int status, bool in_flight);

#endif
