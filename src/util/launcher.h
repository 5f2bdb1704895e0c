/* Launchers that started several processes whose MPI library knows of one: each would train for
 * itself, and all would write the same files. One table of them, by the variables that they set. */
#ifndef POSEIDON_UTIL_LAUNCHER_H
#define POSEIDON_UTIL_LAUNCHER_H

#include <stdbool.h>

/* Fails with a message if a launcher started this process as one of several. alone: MPI says that
 * this job has one rank; else MPI_Init is yet to be called, and only launchers that MPI never
 * hears of are judged. *number, if not NULL: this process's number among the several, from 0. */
int launcher_check(bool alone, int *number);

#endif
