/* Noting signals: one bit each, set by the handler in whichever thread it interrupts. */
#define _GNU_SOURCE
#include "solver/signals.h"

#include "util/error.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>

static _Atomic unsigned noted;

static const struct {
    int number;
    const char *name;
} kinds[SIGNALS] = {[SIGNAL_INT] = {SIGINT, "SIGINT"},
                    [SIGNAL_HUP] = {SIGHUP, "SIGHUP"},
                    [SIGNAL_TERM] = {SIGTERM, "SIGTERM"},
                    [SIGNAL_USR1] = {SIGUSR1, "SIGUSR1"}};

const char *signal_kind_name(enum signal_kind kind)
{
    return kinds[kind].name;
}

int signal_effect_parse(const char *option, const char *text, enum signal_effect *out)
{
    static const char *const names[] = {
        [SIGNAL_NOTHING] = "none", [SIGNAL_SNAPSHOT] = "snapshot", [SIGNAL_STOP] = "stop"};

    for (int i = 0; i < (int)(sizeof names / sizeof *names); i++)
        if (!strcmp(text, names[i])) {
            *out = (enum signal_effect)i;
            return 0;
        }
    return error_set("Invalid signal effect \"%s\" was specified: %s wants none, snapshot or stop", text, option);
}

static void note(int number)
{
    for (int k = 0; k < SIGNALS; k++)
        if (kinds[k].number == number)
            atomic_fetch_or_explicit(&noted, 1u << k, memory_order_relaxed);
}

int signals_install(const enum signal_effect effects[SIGNALS])
{
    for (int k = 0; k < SIGNALS; k++) {
        struct sigaction action = {.sa_handler = effects[k] == SIGNAL_NOTHING ? SIG_IGN : note,
                                   .sa_flags = SA_RESTART};
        sigemptyset(&action.sa_mask);
        if (sigaction(kinds[k].number, &action, NULL))
            return error_set("%s cannot be caught: %s", kinds[k].name, strerror(errno));
    }
    return 0;
}

unsigned signals_take(void)
{
    return atomic_exchange_explicit(&noted, 0, memory_order_relaxed);
}

bool signals_stop_pending(const enum signal_effect effects[SIGNALS])
{
    unsigned bits = atomic_load_explicit(&noted, memory_order_relaxed);

    for (int k = 0; k < SIGNALS; k++)
        if ((bits >> k & 1) && effects[k] == SIGNAL_STOP)
            return true;
    return false;
}
