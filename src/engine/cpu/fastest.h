/* Which of several ways to do the same work takes the least time here: found by doing it.
 *
 * The first way is the usual one: another has to be faster by a twentieth to be taken. */
#ifndef POSEIDON_ENGINE_CPU_FASTEST_H
#define POSEIDON_ENGINE_CPU_FASTEST_H

#include "engine/choices.h"

#include <stdbool.h>

enum { FASTEST_WAYS = 4 };

/* What is worth measuring: below it a pass takes less than half a millisecond of one core. What is
 * smaller goes the usual way: the same bits then come out whatever the clock said. */
#define FASTEST_LEAST_FLOPS 64e6

struct fastest_way {
    int (*run)(void *context); /* does the work once; 0, or -1 with a message */
    void *context;             /* borrowed */
};

/* By what ways are measured. */
struct fastest_clock {
    double (*seconds)(void *context);
    double (*waited)(void *context); /* seconds that threads wanted a core and had none, so far */
    void *context;
};

/* Runs the n ways (1 to FASTEST_WAYS) in turns, until it is plain which is fastest or each has had
 * its share. *which: its number. *sure: whether nothing disturbed that. clock NULL: this machine's.
 * Fails where a way does. One thread, which may share the work among others. */
int fastest_find(const struct fastest_way ways[], int n, const struct fastest_clock *clock,
                 int *which, bool *sure);

struct cpu_engine;

/* The key under which a choice is kept (engine/choices.h): processor, library and threads of the
 * engine, and behind them the work, as printf would print it. */
__attribute__((format(printf, 3, 4))) void
fastest_key(const struct cpu_engine *engine, char key[CHOICES_KEY_BYTES], const char *work, ...);

#endif
