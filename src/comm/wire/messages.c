/* Messages under way: one array of requests for MPI_Testsome, without receives posted ahead. The
 * last request takes the place of a completed request, so that a completion costs O(1).
 *
 * Arriving messages are matched first (MPI_Improbe) and received into the buffer that `accept`
 * names. Over shared memory this is twice as fast as posting receives ahead, and no request is
 * tested in vain. */
#include "wire/wire_internal.h"

#include "util/agree.h"
#include "util/error.h"

#include <assert.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { PROBES_A_TURN = 32 }; /* arrivals taken before completions are tested again */
enum { LEAST_SLOTS = 32 };

/* ---- slots ---- */

/* Grows `array` to `count` elements; on failure -1 with a message, and the array is unchanged. */
#define GROW_ARRAY(array, count)                                                                   \
    ((grown = realloc(array, (count) * sizeof *(array)))                                           \
         ? ((array) = grown, 0)                                                                    \
         : error_memory((count) * sizeof *(array), "messages"))

/* Adds `added` slots and room to track them. */
static int grow(struct wire *wire, int added)
{
    struct active *active = &wire->active;
    size_t count = (size_t)active->capacity + (size_t)added;
    struct slot *slots;
    void *grown;

    if (count > INT_MAX)
        return error_set("internal: more than %d messages", INT_MAX);
    if (GROW_ARRAY(active->requests, count) || GROW_ARRAY(active->slots, count) ||
        GROW_ARRAY(active->completed, count) || GROW_ARRAY(active->statuses, count) ||
        GROW_ARRAY(active->finished, count) || OWN(&wire->owner, slots, added, "messages"))
        return -1;
    for (int i = added - 1; i >= 0; i--) {
        slots[i].spare = wire->spare;
        wire->spare = &slots[i];
    }
    active->capacity = (int)count;
    return 0;
}

int messages_open(struct wire *wire)
{
    const struct wire_options *o = &wire->options;
    struct queue_options options = o->sends;

    options.shared_replies = true;
    if (o->data != MPI_COMM_NULL)
        MPI_CHECK(MPI_Comm_size(o->data, &options.peers));
    if (queue_open(&wire->queue, &wire->owner, &options, 1e-9 * (double)clock_ns()))
        return -1;
    return grow(wire, o->messages > INT_MAX - 2 * LEAST_SLOTS ? INT_MAX - LEAST_SLOTS
                                                              : o->messages + LEAST_SLOTS);
}

void messages_close(struct wire *wire)
{
    struct active *active = &wire->active;

    free(active->requests);
    free(active->slots);
    free(active->completed);
    free(active->statuses);
    free(active->finished);
}

struct slot *messages_slot(struct wire *wire, enum slot_kind kind)
{
    struct slot *slot;

    if (!wire->spare && grow(wire, wire->active.capacity))
        return NULL;
    slot = wire->spare;
    wire->spare = slot->spare;
    memset(slot, 0, sizeof *slot);
    slot->kind = kind;
    return slot;
}

static void messages_free(struct wire *wire, struct slot *slot)
{
    assert(!slot->spare && wire->spare != slot); /* a slot is freed once */
    slot->spare = wire->spare;
    wire->spare = slot;
}

/* Returns true for alarms, which closing does not wait for. */
static bool is_idle(const struct slot *slot)
{
    return slot->kind == SLOT_ALARM_IN || slot->kind == SLOT_ALARM_OUT;
}

void messages_track(struct wire *wire, MPI_Request request, struct slot *slot)
{
    struct active *active = &wire->active;

    assert(active->count < active->capacity);
    assert(request != MPI_REQUEST_NULL);
    active->requests[active->count] = request;
    active->slots[active->count++] = slot;
    active->idle += is_idle(slot);
}

bool messages_busy(const struct wire *wire)
{
    return queue_count(&wire->queue) > 0 || wire->active.count > wire->active.idle;
}

/* ---- sending ---- */

/* Checks that MPI can count the bytes in an int. */
static int check_message(const struct wire_message *message)
{
    assert(message->buffer || message->bytes == 0);
    if (message->bytes > INT_MAX)
        return error_set(
            "a message of %zu bytes to or from rank %d is longer than MPI can send (%d bytes)",
            message->bytes, message->peer, INT_MAX);
    return 0;
}

/* Hands a message to MPI. A synchronous send ends when the receiver has matched it: this is the
 * reply that the queue counts on. A plain send of a few kB ends as soon as MPI has copied it, so
 * the window would hold none back, and urgent messages would queue up in the transport. The bytes
 * leave equally early in both modes. */
static int start_send(struct wire *wire, struct slot *slot)
{
    const struct wire_message *message = &slot->message;
    MPI_Request request;

    if (wire->options.account) /* before the send, which may copy the whole message */
        slot->message.started = clock_ns();
    if (slot->entry.needs_ack)
        MPI_CHECK(MPI_Issend(message->buffer, (int)message->bytes, MPI_BYTE, message->peer,
                             message->tag, wire->options.data, &request));
    else
        MPI_CHECK(MPI_Isend(message->buffer, (int)message->bytes, MPI_BYTE, message->peer,
                            message->tag, wire->options.data, &request));
    wire_count(&wire->counters.sent, message->bytes);
    wire_count(&wire->counters.messages_sent, 1);
    messages_track(wire, request, slot);
    return 0;
}

int messages_flush(struct wire *wire)
{
    struct queue_entry *entry;
    double now = 0;

    if (queue_count(&wire->queue) == 0)
        return 0;
    if (wire->options.sends.bytes_per_second > 0 || wire->options.sends.meter)
        now = 1e-9 * (double)clock_ns();
    while ((entry = queue_take(&wire->queue, now)))
        if (start_send(wire, (struct slot *)entry))
            return -1;
    return 0;
}

/* Returns true if the message is for a communicator other than `data`. Unset means `data`. */
static bool is_other(const struct wire *wire, const struct wire_message *message)
{
    static const MPI_Comm unset;

    return message->comm != MPI_COMM_NULL && message->comm != unset &&
           message->comm != wire->options.data;
}

/* Starts a control message at once, past the queue. */
static int start_control(struct wire *wire, const struct wire_message *message, bool receives)
{
    struct slot *slot = messages_slot(wire, receives ? SLOT_CONTROL_RECEIVE : SLOT_CONTROL_SEND);
    int bytes = (int)message->bytes;
    MPI_Request request;

    if (!slot)
        return -1;
    slot->message = *message;
    slot->message.received = receives;
    if (receives)
        MPI_TRY(MPI_Irecv(message->buffer, bytes, MPI_BYTE, message->peer, message->tag,
                          message->comm, &request));
    else
        MPI_TRY(MPI_Isend(message->buffer, bytes, MPI_BYTE, message->peer, message->tag,
                          message->comm, &request));
    if (!receives)
        wire_count(&wire->counters.control_sent, message->bytes);
    messages_track(wire, request, slot);
    return 0;
fail:
    messages_free(wire, slot);
    return -1;
}

int wire_send(struct wire *wire, const struct wire_message *message)
{
    struct slot *slot;

    assert(wire_is_inside(wire) && !wire->closed);
    if (check_message(message))
        return -1;
    if (is_other(wire, message))
        return start_control(wire, message, false);
    assert(wire->options.data != MPI_COMM_NULL);
    slot = messages_slot(wire, SLOT_SEND);
    if (!slot)
        return -1;
    slot->message = *message;
    slot->message.comm = wire->options.data;
    slot->message.received = false;
    if (wire->options.account)
        slot->message.posted = clock_ns();
    slot->entry.peer = message->peer;
    slot->entry.bytes = message->bytes;
    slot->entry.urgency = message->urgency;
    slot->entry.weight = message->weight;
    queue_put(&wire->queue, &slot->entry);
    return 0; /* leaves after the callback, by urgency among the callback's messages */
}

int wire_receive(struct wire *wire, const struct wire_message *message)
{
    assert(wire_is_inside(wire) && !wire->closed);
    assert(is_other(wire, message));
    return check_message(message) ? -1 : start_control(wire, message, true);
}

int wire_track(struct wire *wire, MPI_Request request, size_t bytes, wire_done_fn *done,
               void *context)
{
    struct slot *slot = messages_slot(wire, SLOT_TRACKED);

    assert(wire_is_inside(wire) && !wire->closed);
    if (!slot)
        return -1;
    slot->message = (struct wire_message){
        .bytes = bytes, .comm = MPI_COMM_NULL, .done = done, .context = context};
    wire_count(&wire->counters.control_sent, bytes);
    messages_track(wire, request, slot);
    return 0;
}

/* ---- receiving ---- */

/* Returns the bytes of an arrived message; -1 with a message. */
static int64_t length_of(const MPI_Status *status)
{
    MPI_Count bytes = 0;

    MPI_CHECK(MPI_Get_elements_x(status, MPI_BYTE, &bytes));
    return bytes;
}

/* Receives a matched message into the buffer that `accept` names. */
static int receive(struct wire *wire, MPI_Message *matched, const MPI_Status *status)
{
    int64_t bytes = length_of(status);
    struct slot *slot = bytes < 0 ? NULL : messages_slot(wire, SLOT_RECEIVE);
    struct wire_message *message;
    MPI_Request request;

    if (!slot)
        return -1;
    message = &slot->message;
    message->bytes = (size_t)bytes;
    if (wire->options.accept(wire->options.context, status->MPI_SOURCE, status->MPI_TAG,
                             (size_t)bytes, message))
        goto fail;
    if (message->bytes != (size_t)bytes) {
        error_set("rank %d sent %lld bytes with tag %d where %zu were expected", status->MPI_SOURCE,
                  (long long)bytes, status->MPI_TAG, message->bytes);
        goto fail;
    }
    message->peer = status->MPI_SOURCE;
    message->tag = status->MPI_TAG;
    message->comm = wire->options.data;
    message->received = true;
    if (wire->options.account)
        message->posted = message->started = clock_ns();
    MPI_TRY(MPI_Imrecv(message->buffer, (int)message->bytes, MPI_BYTE, matched, &request));
    messages_track(wire, request, slot);
    return 0;
fail:
    messages_free(wire, slot);
    return -1;
}

/* Returns the number of arrivals taken; a failure counts as one. */
static int take_arrivals(struct wire *wire)
{
    int arrived = 0;

    while (arrived < PROBES_A_TURN && !atomic_load(&wire->failed)) {
        MPI_Message matched;
        MPI_Status status;
        int found = 0;

        arrived++;
        MPI_TRY(MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, wire->options.data, &found, &matched,
                            &status));
        if (!found)
            return arrived - 1;
        if (receive(wire, &matched, &status))
            goto fail;
    }
    return arrived;
fail:
    alarm_raise(wire, true);
    return arrived;
}

/* ---- completion ---- */

static int check_arrival(const struct slot *slot, const MPI_Status *status)
{
    int64_t bytes;

    if (status->MPI_ERROR != MPI_SUCCESS && status->MPI_ERROR != MPI_ERR_PENDING)
        return error_mpi(status->MPI_ERROR,
                         slot->kind == SLOT_TRACKED ? "a collective operation" : "a message");
    if (slot->kind != SLOT_CONTROL_RECEIVE)
        return 0;
    bytes = length_of(status);
    if (bytes >= 0 && (size_t)bytes != slot->message.bytes)
        return error_set("rank %d sent %lld bytes with tag %d where %zu were expected",
                         slot->message.peer, (long long)bytes, slot->message.tag,
                         slot->message.bytes);
    return bytes < 0 ? -1 : 0;
}

static int hand_on(struct wire *wire, const struct slot *slot)
{
    const struct wire_message *message = &slot->message;

    if (slot->kind == SLOT_RECEIVE) {
        wire_count(&wire->counters.received, message->bytes);
        wire_count(&wire->counters.messages_received, 1);
    }
    if (wire->options.account && (slot->kind == SLOT_RECEIVE || slot->kind == SLOT_SEND))
        wire->options.account(wire->options.context, message);
    if (message->done && message->done(message->context, message))
        return -1;
    return messages_flush(wire);
}

static void finish(struct wire *wire, struct slot *slot, const MPI_Status *status)
{
    if (slot->kind == SLOT_SEND && slot->entry.needs_ack)
        queue_sent(&wire->queue, &slot->entry);
    if (slot->kind == SLOT_CLOSING)
        thread_closing_over(wire);
    else if (slot->kind == SLOT_ALARM_IN)
        alarm_raise(wire, false);
    else if (!atomic_load(&wire->failed) && /* after a failure buffers may be half-filled */
             (check_arrival(slot, status) || hand_on(wire, slot)))
        alarm_raise(wire, true);
    messages_free(wire, slot);
}

/* Moves completed requests from the arrays to `finished`. */
static void take_out(struct active *active, int completed)
{
    for (int i = 0; i < completed; i++) {
        int at = active->completed[i];
        active->finished[i] = active->slots[at];
        active->idle -= is_idle(active->slots[at]);
        active->slots[at] = NULL;
    }
    for (int i = 0; i < completed; i++) {
        int at = active->completed[i];
        while (active->count > 0 && !active->slots[active->count - 1])
            active->count--;
        if (at < active->count && !active->slots[at]) {
            active->count--;
            active->slots[at] = active->slots[active->count];
            active->requests[at] = active->requests[active->count];
        }
    }
}

/* Removes completed requests first and hands them on afterwards: a `done` may add requests, which
 * changes and may move the arrays. Returns the number of completed requests. */
static int take_completions(struct wire *wire)
{
    struct active *active = &wire->active;
    int completed = 0, code;

    code = MPI_Testsome(active->count, active->requests, &completed, active->completed,
                        active->statuses);
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
        error_mpi(code, "MPI_Testsome");
        alarm_raise(wire, true);
        return 1;
    }
    if (completed <= 0 || completed == MPI_UNDEFINED)
        return 0;
    take_out(active, completed);
    for (int i = 0; i < completed; i++) {
        MPI_Status status = active->statuses[i];
        if (code == MPI_SUCCESS)
            status.MPI_ERROR = MPI_SUCCESS;
        finish(wire, active->finished[i], &status);
    }
    return completed;
}

int messages_take(struct wire *wire)
{
    int taken = wire->options.data == MPI_COMM_NULL ? 0 : take_arrivals(wire);

    return taken + take_completions(wire);
}

void messages_drop(struct wire *wire)
{
    struct active *active = &wire->active;

    /* Normally only the receive of alarms is left. After a failure any request may be left, matched
     * or not: none can be cancelled safely, and the process is about to end. */
    for (int i = 0; i < active->count && !atomic_load(&wire->failed); i++)
        if (MPI_Cancel(&active->requests[i]) == MPI_SUCCESS)
            (void)MPI_Wait(&active->requests[i], MPI_STATUS_IGNORE);
    active->count = active->idle = 0;
}
