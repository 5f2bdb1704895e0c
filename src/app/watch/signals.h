/* Signals to a long run: the effect of each (Caffe's --sigint_effect and --sighup_effect, and the
 * same for schedulers' signals), and which signals have come.
 *
 * All threads block these signals, and training takes them between iterations. Not collective. */
#ifndef POSEIDON_WATCH_SIGNALS_H
#define POSEIDON_WATCH_SIGNALS_H

#include <stdbool.h>

#include "job/ends.h"

/* Returns "SIGINT", ... */
const char *signal_kind_name(enum signal_kind kind);

/* Parse an option: one effect, "stop", or an effect per signal, "TERM=stop,USR1=snapshot". A wrong
 * effect fails with Caffe's message (Invalid signal effect "x" was specified) and the valid
 * words. */
int signal_effect_parse(const char *option, const char *text, void *target);
int signals_parse(const char *option, const char *text, void *target);

/* Blocks signals until the end of the process, to be taken by signals_take; ignores signals without
 * effect. Call before any other thread starts, MPI's included. */
int signals_catch(const enum signal_effect effects[SIGNALS]);

/* Returns the signals since the last call, as a sum of 1 << kind. */
unsigned signals_take(void);

/* Returns true if a stop signal is pending: it has come, but was not taken yet. */
bool signals_stop_pending(const enum signal_effect effects[SIGNALS]);

/* Block SIGINT, SIGTERM and SIGHUP in this thread and threads that it starts, for a command whose
 * loop can end early; unblock them, so that they act as usual. */
void signals_hold(void);
void signals_release(void);

/* Returns true if SIGINT, SIGTERM or SIGHUP came after signals_hold. */
bool signals_pending(void);

#endif
