/* Detects launchers whose processes MPI does not know as one job: each process would train alone,
 * and all would write the same files. A table lists the variables that launchers set. */
#ifndef POSEIDON_UTIL_LAUNCHER_H
#define POSEIDON_UTIL_LAUNCHER_H

#include <stdbool.h>

/* Fails with a message if a launcher started this process as one of several. alone: true if MPI
 * says that this job has one rank; false before MPI_Init, when only launchers that MPI may never
 * learn of are judged. *number, if not NULL: index of this process among the several, from 0. */
int launcher_check(bool alone, int *number);

#endif
