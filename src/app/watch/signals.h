/* Signals to a run that may take days: what each does (Caffe's --sigint_effect and --sighup_effect,
 * and the same for those that schedulers send), and which have come.
 *
 * They are held back, in all threads, and looked for between iterations. Not collective. */
#ifndef POSEIDON_WATCH_SIGNALS_H
#define POSEIDON_WATCH_SIGNALS_H

#include <stdbool.h>

#include "job/ends.h"

/* "SIGINT", ... */
const char *signal_kind_name(enum signal_kind kind);

/* Values of options, into an enum signal_effect: "stop"; or into one for each signal: a comma list,
 * "TERM=stop,USR1=snapshot". A wrong effect fails with Caffe's sentence, Invalid signal effect "x"
 * was specified, and what would be right. */
int signal_effect_parse(const char *option, const char *text, void *target);
int signals_parse(const char *option, const char *text, void *target);

/* From now on signals wait to be taken, to the end of the process; those without effect are
 * ignored. Before any other thread is started, MPI's included. */
int signals_catch(const enum signal_effect effects[SIGNALS]);

/* Which have come since they were taken last: bit 1 << kind. */
unsigned signals_take(void);

/* One whose effect is to stop has come and was not taken yet. */
bool signals_stop_pending(const enum signal_effect effects[SIGNALS]);

/* For a command whose loop can end early: holds SIGINT, SIGTERM and SIGHUP back in this thread, and
 * those that it starts, until signals_release, which lets them do what they would have done. */
void signals_hold(void);
void signals_release(void);

/* Whether one of the three has come meanwhile. */
bool signals_pending(void);

#endif
