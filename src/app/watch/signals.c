/* Blocks signals until they are taken. Without a handler, no signal interrupts a library's system
 * call in any thread. */
#define _GNU_SOURCE
#include "watch/signals.h"

#include "util/choice.h"
#include "util/error.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const struct {
    int number;
    const char *name;
} kinds[SIGNALS] = {[SIGNAL_INT] = {SIGINT, "SIGINT"},
                    [SIGNAL_HUP] = {SIGHUP, "SIGHUP"},
                    [SIGNAL_TERM] = {SIGTERM, "SIGTERM"},
                    [SIGNAL_USR1] = {SIGUSR1, "SIGUSR1"},
                    [SIGNAL_XCPU] = {SIGXCPU, "SIGXCPU"}};

const char *signal_kind_name(enum signal_kind kind)
{
    assert(kind < SIGNALS);
    return kinds[kind].name;
}

int signal_effect_parse(const char *option, const char *text, void *target)
{
    static const char *const words[] = {
        [SIGNAL_NOTHING] = "none", [SIGNAL_SNAPSHOT] = "snapshot", [SIGNAL_STOP] = "stop", NULL};
    int found = choice_find(words, text);
    char list[64];

    if (found < 0)
        return error_set("Invalid signal effect \"%s\" was specified: %s expects %s", text, option,
                         choice_list(words, list, sizeof list));
    *(enum signal_effect *)target = (enum signal_effect)found;
    return 0;
}

/* Finds a signal by its name with or without SIG; SIGNALS: no such signal. */
static int find_kind(const char *name, size_t length)
{
    int k = 0;

    while (k < SIGNALS &&
           (strlen(kinds[k].name + 3) != length || strncmp(kinds[k].name + 3, name, length)) &&
           (strlen(kinds[k].name) != length || strncmp(kinds[k].name, name, length)))
        k++;
    return k;
}

int signals_parse(const char *option, const char *text, void *target)
{
    enum signal_effect *effects = target;
    char effect[16];

    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",="), rest = at[length] == '=' ? strcspn(at + length, ",") : 0;
        int kind = rest > 0 ? find_kind(at, length) : SIGNALS;

        if (kind == SIGNALS)
            return error_set("%s=%s: expected effects of INT, HUP, TERM, USR1 or XCPU, such as "
                             "TERM=stop,USR1=snapshot",
                             option, text);
        snprintf(effect, sizeof effect, "%.*s", (int)rest - 1, at + length + 1);
        if (signal_effect_parse(option, effect, &effects[kind]))
            return -1;
        at += length + rest;
        if (!*at)
            return 0;
    }
}

static void all_kinds(sigset_t *set)
{
    sigemptyset(set);
    for (int k = 0; k < SIGNALS; k++)
        sigaddset(set, kinds[k].number);
}

int signals_catch(const enum signal_effect effects[SIGNALS])
{
    sigset_t set;

    for (int k = 0; k < SIGNALS; k++) {
        struct sigaction action = {.sa_handler = effects[k] == SIGNAL_NOTHING ? SIG_IGN : SIG_DFL};
        sigemptyset(&action.sa_mask);
        if (sigaction(kinds[k].number, &action, NULL))
            return error_set("%s cannot be caught: %s", kinds[k].name, strerror(errno));
    }
    all_kinds(&set);
    if (sigprocmask(SIG_BLOCK, &set, NULL))
        return error_set("signals cannot be blocked: %s", strerror(errno));
    return 0;
}

unsigned signals_take(void)
{
    const struct timespec at_once = {0};
    unsigned bits = 0;
    sigset_t set;
    int number;

    all_kinds(&set);
    while ((number = sigtimedwait(&set, NULL, &at_once)) > 0)
        for (int k = 0; k < SIGNALS; k++)
            if (kinds[k].number == number)
                bits |= 1u << k;
    return bits;
}

bool signals_stop_pending(const enum signal_effect effects[SIGNALS])
{
    sigset_t pending;

    if (sigpending(&pending))
        return false;
    for (int k = 0; k < SIGNALS; k++)
        if (effects[k] == SIGNAL_STOP && sigismember(&pending, kinds[k].number) == 1)
            return true;
    return false;
}

/* ---- commands that end early ---- */

static const enum signal_effect interrupts[SIGNALS] = {
    [SIGNAL_INT] = SIGNAL_STOP, [SIGNAL_HUP] = SIGNAL_STOP, [SIGNAL_TERM] = SIGNAL_STOP};

static void change_mask(int how)
{
    struct sigaction action;
    sigset_t set;

    sigemptyset(&set);
    for (int k = 0; k < SIGNALS; k++)
        if (interrupts[k] == SIGNAL_STOP && !sigaction(kinds[k].number, NULL, &action) &&
            action.sa_handler != SIG_IGN) /* nohup ignores SIGHUP */
            sigaddset(&set, kinds[k].number);
    sigprocmask(how, &set, NULL);
}

void signals_hold(void)
{
    change_mask(SIG_BLOCK);
}

void signals_release(void)
{
    change_mask(SIG_UNBLOCK);
}

bool signals_pending(void)
{
    return signals_stop_pending(interrupts);
}
