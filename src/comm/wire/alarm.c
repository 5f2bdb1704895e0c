/* Alarms: a failure travels as an empty message. A rank that fails, or hears of a failure for the
 * first time, alerts the ranks 1, 2, 4, ... further on. So every rank hears of the failure after
 * log2(ranks) steps, and no rank has to reach all others. */
#include "wire/wire_internal.h"

#include "util/agree.h"
#include "util/error.h"
#include "util/strbuf.h"

#include <stdio.h>

enum { TAG_ALARM = 1 };

int alarm_listen(struct wire *wire)
{
    struct slot *slot = messages_slot(wire, SLOT_ALARM_IN);
    MPI_Request request;

    if (!slot)
        return -1;
    MPI_CHECK(MPI_Irecv(NULL, 0, MPI_BYTE, MPI_ANY_SOURCE, TAG_ALARM, wire->comm, &request));
    messages_track(wire, request, slot);
    return 0;
}

static void ring(struct wire *wire)
{
    for (int64_t step = 1; step < wire->nranks; step *= 2) {
        struct slot *slot = messages_slot(wire, SLOT_ALARM_OUT);
        MPI_Request request;

        if (slot && MPI_Isend(NULL, 0, MPI_BYTE, (int)((wire->rank + step) % wire->nranks),
                              TAG_ALARM, wire->comm, &request) == MPI_SUCCESS)
            messages_track(wire, request, slot);
    }
}

void alarm_raise(struct wire *wire, bool own)
{
    if (own && !wire->own_failure) {
        wire->own_failure = true;
        snprintf(wire->failure, sizeof wire->failure, "%s", error_text());
    }
    if (!wire->alarm_rung) {
        wire->alarm_rung = true;
        ring(wire);
        if (wire->options.abort)
            wire->options.abort(wire->options.context);
    }
    atomic_store(&wire->failed, 1);
    wire_wake(wire);
}

/* ---- stalls ---- */

/* Appends the messages that wait or are on their way. */
static void put_messages(const struct wire *wire, struct strbuf *text)
{
    const struct active *active = &wire->active;
    const struct slot *first = NULL;

    for (int i = 0; i < active->count && !first; i++)
        if (active->slots[i]->kind == SLOT_SEND || active->slots[i]->kind == SLOT_RECEIVE)
            first = active->slots[i];
    if (queue_count(&wire->queue) > 0)
        strbuf_printf(text, "; %zu messages wait to be sent", queue_count(&wire->queue));
    if (active->count > active->idle)
        strbuf_printf(text, "; %d on their way", active->count - active->idle);
    if (first)
        strbuf_printf(text, ", one %s rank %d", first->message.received ? "from" : "to",
                      first->message.peer);
}

void alarm_watch_stall(struct wire *wire, int64_t now)
{
    const struct wire_options *o = &wire->options;
    const struct wire_watch *watch = &o->watch;
    double waited = 1e-9 * (double)(now - wire->last_progress);
    struct strbuf text = {0};

    if (watch->stall_seconds <= 0 || waited < watch->stall_seconds || wire->stall_reported ||
        !watch->warn || heartbeat_speaks(wire))
        return;
    wire->stall_reported = true;
    strbuf_printf(&text, "rank %d has waited %.0f s%s", wire->rank, waited,
                  atomic_load(&wire->close_asked) ? " to close" : "");
    if (o->describe_wait)
        o->describe_wait(o->context, &text);
    put_messages(wire, &text);
    heartbeat_put_busy(wire, &text);
    watch->warn(watch->context, strbuf_text(&text));
    strbuf_free(&text);
}
