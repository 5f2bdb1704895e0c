/* Signals to a run that may take days: the effect of each (Caffe's --sigint_effect and
 * --sighup_effect, and the same for signals of schedulers), and which signals have come.
 *
 * All threads hold these signals back, and training looks for them between iterations. Not
 * collective. */
#ifndef POSEIDON_WATCH_SIGNALS_H
#define POSEIDON_WATCH_SIGNALS_H

#include <stdbool.h>

#include "job/ends.h"

/* Returns "SIGINT", ... */
const char *signal_kind_name(enum signal_kind kind);

/* Parse an option: one effect, "stop", or one per signal, "TERM=stop,USR1=snapshot". A wrong effect
 * fails with Caffe's Invalid signal effect "x" was specified, and the valid words. */
int signal_effect_parse(const char *option, const char *text, void *target);
int signals_parse(const char *option, const char *text, void *target);

/* Lets signals wait to be taken, to the end of the process; ignores those without effect. Before
 * any other thread is started, MPI's included. */
int signals_catch(const enum signal_effect effects[SIGNALS]);

/* Returns the signals that have come since the last call: bit 1 << kind. */
unsigned signals_take(void);

/* Returns true if a signal whose effect is to stop has come and was not taken yet. */
bool signals_stop_pending(const enum signal_effect effects[SIGNALS]);

/* Hold SIGINT, SIGTERM and SIGHUP back in this thread and those that it starts, for a command whose
 * loop can end early; release the signals, which then act as usual. */
void signals_hold(void);
void signals_release(void);

/* Returns true if SIGINT, SIGTERM or SIGHUP has come since signals_hold. */
bool signals_pending(void);

#endif
