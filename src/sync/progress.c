/* The progress thread: it alone calls MPI while training runs.
 *
 * Open MPI moves a nonblocking call only inside MPI calls, so somebody must keep calling; that must
 * not be the thread that computes. The loop takes events from the compute thread, tests all active
 * requests at once, hands each completed one to whom it belongs, and rests on a semaphore when
 * nothing happened. Every rest costs the core some 25 us in a virtual machine (RESULTS.md), so
 * rests grow while the compute thread has better use for the core; they are short while it waits
 * for us anyway. */
#define _GNU_SOURCE
#include "sync/sync_internal.h"

#include "util/agree.h"
#include "util/clock.h"
#include "util/error.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { TAG_ALARM = 1, TAG_HISTORY = 2 };
/* A rest is short at first and doubles with every few polls that find nothing: 16-fold at most
 * while something is under way (800 us of a 10 Gbit/s link fit into a socket's buffer), 128-fold
 * when only another rank's alarm can come. While the compute thread waits, it grows slowly and
 * eightfold at most (100 us after a ms, 400 us after 30): other ranks may compute on the same core.
 */
enum { REST_NS = 50000, SPINS_WHILE_WAITED_FOR = 50 };
enum { DOUBLINGS_UNDER_WAY = 4, DOUBLINGS_AT_MOST = 7, DOUBLINGS_WAITED_FOR = 3 };
enum { POLLS_A_DOUBLING = 2, POLLS_A_DOUBLING_WAITED_FOR = 64 };

int progress_track(struct sync *sync, MPI_Request request, struct transfer transfer)
{
    if (sync->nrequests == sync->capacity)
        return error_set("internal: more than %d transfers in flight", sync->capacity);
    sync->requests[sync->nrequests] = request;
    sync->transfers[sync->nrequests++] = transfer;
    if (transfer.idle)
        sync->idle_receives++;
    return 0;
}

struct trace_event progress_describe(const struct sync *sync, enum trace_kind kind,
                                     const struct transfer *transfer, int tag, size_t bytes)
{
    int group = transfer->group;
    struct trace_event event = {.kind = (uint8_t)kind,
                                .bytes = bytes,
                                .tag = tag,
                                .peer = sync->plan->world_rank[transfer->peer],
                                .layer = sync->plan->buckets[group].layer,
                                .scheme = (uint8_t)scheme_index(sync->plan->buckets[group].scheme)};

    if (sync->options.trace) {
        event.start = trace_clock(sync->options.trace);
        event.iteration = sync->worker ? (int32_t)sync->groups[group].running - 1
                                       : trace_current(sync->options.trace);
    }
    return event;
}

/* A transfer of training data is over. */
static void account(struct sync *sync, const struct transfer *transfer)
{
    const struct trace_event *event = &transfer->event;

    if (event->kind != TRACE_RECEIVE)
        sync->group_sent[transfer->group] += event->bytes;
    if (event->kind != TRACE_SEND)
        sync->group_received[transfer->group] += event->bytes;
    if (sync->options.trace)
        trace_keep(sync->options.trace, TRACE_PROGRESS, *event);
}

int progress_send_now(struct sync *sync, const struct parcel *parcel)
{
    struct transfer transfer = parcel->transfer;
    size_t bytes = parcel->elems * sizeof(float);
    MPI_Request request;

    /* before the call, which may copy all of it already */
    transfer.event.start = trace_begin(sync->options.trace);
    transfer.out = bytes;
    MPI_TRY(MPI_Isend(parcel->from, (int)parcel->elems, MPI_FLOAT, transfer.peer, parcel->tag,
                      sync->data, &request));
    atomic_fetch_add(&sync->sent, bytes);
    return progress_track(sync, request, transfer);
fail:
    return -1;
}

int progress_send(struct sync *sync, MPI_Comm comm, const void *from, size_t elems, int tag,
                  struct transfer transfer)
{
    MPI_Request request;

    if (transfer.kind == TRANSFER_SYNCER) {
        transfer.event = progress_describe(sync, TRACE_SEND, &transfer, tag, elems * sizeof(float));
        transfer.event.posted = transfer.event.start;
        return sendq_put(
            sync, (struct parcel){.from = from, .elems = elems, .tag = tag, .transfer = transfer});
    }
    MPI_TRY(MPI_Isend(from, (int)elems, MPI_FLOAT, transfer.peer, tag, comm, &request));
    atomic_fetch_add(&sync->control_sent, elems * sizeof(float));
    return progress_track(sync, request, transfer);
fail:
    return -1;
}

int progress_receive(struct sync *sync, MPI_Comm comm, void *to, size_t elems, int tag,
                     struct transfer transfer)
{
    MPI_Request request;

    transfer.bytes = elems * sizeof(float);
    MPI_TRY(MPI_Irecv(to, (int)elems, MPI_FLOAT, transfer.peer, tag, comm, &request));
    if (transfer.kind == TRANSFER_SYNCER)
        transfer.event = progress_describe(sync, TRACE_RECEIVE, &transfer, tag, transfer.bytes);
    return progress_track(sync, request, transfer);
fail:
    return -1;
}

double progress_weight(const struct sync *sync, const float *change, const float *values,
                       size_t elems)
{
    if (sync->options.staleness == 0 || sync->options.fifo || !values)
        return 0;
    return clip_sumsq(change, elems, 1) / (clip_sumsq(values, elems, 1) + 1e-30);
}

void progress_wake(struct sync *sync)
{
    if (atomic_exchange(&sync->sleeping, 0))
        sem_post(&sync->wake);
}

int progress_finish_one(struct sync *sync, int group)
{
    struct group_state *state = &sync->groups[group];

    if (--state->pending > 0)
        return 0;
    if (remote_store_values(sync, group, false))
        return -1;
    if (!sync_settles(sync, group)) {
        node_publish(sync, group);
        team_publish(sync, group);
    }
    atomic_store_explicit(&state->done, state->running, memory_order_release);
    progress_wake(sync);
    return 0;
}

/* Remembers the first failure of this rank and rings every other rank's alarm. */
static void raise_alarm(struct sync *sync, bool local)
{
    sync->my_failing = sync->world_rank;
    if (local && !sync->local_failure) {
        sync->local_failure = true;
        snprintf(sync->failure, sizeof sync->failure, "%s", error_text());
    }
    if (!sync->alarm_out) {
        sync->alarm_out = 1;
        for (int r = 0; r < sync->nranks; r++) {
            MPI_Request request;
            if (r != sync->world_rank && MPI_Isend(&sync->alarm_out, 1, MPI_INT, r, TAG_ALARM,
                                                   sync->all, &request) == MPI_SUCCESS)
                progress_track(sync, request,
                               (struct transfer){.kind = TRANSFER_TELL, .idle = true});
        }
    }
    atomic_store(&sync->failed, 1);
    progress_wake(sync);
}

static int start_sum(struct sync *sync)
{
    MPI_Request request;

    MPI_TRY(MPI_Iallreduce(sync->sum_values, sync->sum_result, sync->sum_count, MPI_DOUBLE, MPI_SUM,
                           sync->sums, &request));
    atomic_fetch_add(&sync->control_sent, (uint64_t)sync->sum_count * sizeof(double));
    return progress_track(sync, request, (struct transfer){.kind = TRANSFER_SUM});
fail:
    return -1;
}

static int start_asking(struct sync *sync)
{
    MPI_Request request;

    MPI_TRY(MPI_Iallreduce(sync->ask_values, sync->ask_result, SYNC_ASK_VALUES, MPI_DOUBLE, MPI_SUM,
                           sync->asking, &request));
    atomic_fetch_add(&sync->control_sent, sizeof sync->ask_values);
    return progress_track(sync, request, (struct transfer){.kind = TRANSFER_ASK});
fail:
    return -1;
}

static void call_over(struct sync *sync)
{
    atomic_store_explicit(&sync->call_done, 1, memory_order_release);
    progress_wake(sync);
}

/* Messages between two ranks on one tag never overtake, so a fixed order of chunks and history
 * blocks is all the addressing that is needed. */
static int start_gather(struct sync *sync)
{
    const struct plan *plan = sync->plan;
    size_t elems = sync->net->elems;

    sync->gather_pending = 1;
    for (int c = 0; c < plan->nchunks; c++) {
        const struct chunk *chunk = &plan->chunks[c];
        int home = plan_home(plan, c);
        float *mine;

        if (sync->groups[chunk->bucket].syncer == NULL ||
            sync->groups[chunk->bucket].syncer->history || (sync->rank != 0 && sync->rank != home))
            continue; /* rank 0 has it already */
        mine = home == sync->rank ? ps_history(sync, c) : NULL;
        if (home == sync->rank && !mine)
            return -1;
        for (int b = 0; b < sync->update.nhistory; b++) {
            struct transfer transfer = {.kind = TRANSFER_GATHER, .chunk = c};
            float *to =
                sync->rank == 0 ? sync->gather_history + (size_t)b * elems + chunk->begin : NULL;
            int status = 0;

            if (home == 0) {
                if (sync->rank == 0)
                    memcpy(to, mine + (size_t)b * chunk->elems, chunk->elems * sizeof *to);
                continue;
            }
            transfer.peer = sync->rank == 0 ? home : 0;
            if (sync->rank == 0)
                status =
                    progress_receive(sync, sync->control, to, chunk->elems, TAG_HISTORY, transfer);
            else
                status = progress_send(sync, sync->control, mine + (size_t)b * chunk->elems,
                                       chunk->elems, TAG_HISTORY, transfer);
            if (status)
                return -1;
            sync->gather_pending++;
        }
    }
    if (--sync->gather_pending == 0)
        call_over(sync);
    return 0;
}

int progress_post_group(struct sync *sync, int group)
{
    struct group_state *state = &sync->groups[group];

    state->running++;
    return state->syncer->post(sync, group, state->running - 1);
}

/* Posts what has reached the host since, in the order of the gradients. Returns how many. */
static int post_waiting(struct sync *sync)
{
    int posted = 0;

    while (posted < sync->nwaiting && !atomic_load(&sync->failed)) {
        int ready = remote_fetched(sync, sync->waiting[posted]);
        if (ready == 0)
            break;
        if (ready < 0 || progress_post_group(sync, sync->waiting[posted]))
            raise_alarm(sync, true);
        posted++;
    }
    sync->nwaiting -= posted;
    memmove(sync->waiting, sync->waiting + posted, (size_t)sync->nwaiting * sizeof *sync->waiting);
    return posted;
}

static int handle_event(struct sync *sync, const struct event *event)
{
    switch (event->kind) {
    case EVENT_POST:
        if (sync->node)
            node_post(sync, event->group);
        else if (sync->team)
            team_post(sync, event->group);
        else if (sync->remote)
            sync->waiting[sync->nwaiting++] = event->group;
        else
            return progress_post_group(sync, event->group);
        return 0;
    case EVENT_PUBLISH:
        team_publish(sync, event->group);
        return 0;
    case EVENT_NORMS:
        sync->clip.factors_ready = true;
        return clip_advance(sync);
    case EVENT_SUM:
        return start_sum(sync);
    case EVENT_GATHER:
        return start_gather(sync);
    case EVENT_ASK:
        return start_asking(sync);
    case EVENT_FAIL:
        raise_alarm(sync, false);
        return 0;
    case EVENT_CLOSE:
        sync->close_asked = true;
        return 0;
    }
    return 0;
}

static int drain_events(struct sync *sync)
{
    size_t head = atomic_load_explicit(&sync->head, memory_order_relaxed);
    int handled = 0;

    while (head != atomic_load_explicit(&sync->tail, memory_order_acquire)) {
        struct event event = sync->ring[head & sync->ring_mask];
        atomic_store_explicit(&sync->head, ++head, memory_order_release);
        handled++;
        /* after a failure nothing new starts, but closing is still heard */
        bool closing = event.kind == EVENT_CLOSE || event.kind == EVENT_FAIL;
        if ((closing || !atomic_load(&sync->failed)) && handle_event(sync, &event))
            raise_alarm(sync, true);
    }
    return handled;
}

static int check_arrival(struct sync *sync, const struct transfer *transfer,
                         const MPI_Status *status)
{
    int count = 0;

    if (status->MPI_ERROR != MPI_SUCCESS && status->MPI_ERROR != MPI_ERR_PENDING)
        return error_mpi(status->MPI_ERROR, "a transfer of training data");
    if (transfer->bytes == 0)
        return 0;
    MPI_TRY(MPI_Get_count(status, MPI_BYTE, &count));
    if ((size_t)count != transfer->bytes)
        return error_set(
            "rank %d sent %d bytes of layer '%s' where %zu were expected: the ranks do not "
            "run the same net",
            sync->plan->world_rank[transfer->peer], count,
            sync->plan->buckets[transfer->group].name, transfer->bytes);
    return 0;
fail:
    return -1;
}

static int complete_transfer(struct sync *sync, const struct transfer *transfer)
{
    switch (transfer->kind) {
    case TRANSFER_SYNCER:
        return sync->groups[transfer->group].syncer->complete(sync, transfer);
    case TRANSFER_SUM:
        call_over(sync);
        return 0;
    case TRANSFER_CLIP:
        return clip_complete(sync);
    case TRANSFER_GATHER:
        if (--sync->gather_pending == 0)
            call_over(sync);
        return 0;
    case TRANSFER_ASK:
        atomic_store_explicit(&sync->ask_done, 1, memory_order_release);
        progress_wake(sync);
        return 0;
    case TRANSFER_ALARM:
        atomic_store(&sync->failed, 1);
        progress_wake(sync);
        return 0;
    case TRANSFER_TELL:
    case TRANSFER_GONE:
        return 0;
    case TRANSFER_CLOSE:
        sync->stop = true;
        return 0;
    }
    return 0;
}

/* Tests everything that is active, closes the gaps, then dispatches: what a completion starts must
 * not disturb the arrays that are being walked. Returns how many completed. */
static int poll_requests(struct sync *sync)
{
    int ncompleted = 0, kept = 0, code;

    code =
        MPI_Testsome(sync->nrequests, sync->requests, &ncompleted, sync->completed, sync->statuses);
    if (code != MPI_SUCCESS && code != MPI_ERR_IN_STATUS) {
        error_mpi(code, "MPI_Testsome");
        raise_alarm(sync, true);
        return 1;
    }
    if (ncompleted <= 0 || ncompleted == MPI_UNDEFINED)
        return 0;
    for (int i = 0; i < ncompleted; i++) {
        sync->finished[i] = sync->transfers[sync->completed[i]];
        sync->transfers[sync->completed[i]].kind = TRANSFER_GONE;
        if (code == MPI_SUCCESS)
            sync->statuses[i].MPI_ERROR = MPI_SUCCESS;
    }
    for (int i = 0; i < sync->nrequests; i++)
        if (sync->transfers[i].kind != TRANSFER_GONE) {
            sync->requests[kept] = sync->requests[i];
            sync->transfers[kept++] = sync->transfers[i];
        }
    sync->nrequests = kept;
    for (int i = 0; i < ncompleted; i++) {
        const struct transfer *transfer = &sync->finished[i];
        if (transfer->idle)
            sync->idle_receives--;
        if (transfer->out)
            sendq_sent(sync, transfer);
        /* after a failure only the alarm and the closing matter; buffers may be half-filled */
        if (atomic_load(&sync->failed) && transfer->kind != TRANSFER_CLOSE)
            continue;
        if (transfer->kind == TRANSFER_SYNCER) {
            account(sync, transfer);
            atomic_fetch_add(&sync->received, transfer->bytes);
        }
        if (check_arrival(sync, transfer, &sync->statuses[i]) || complete_transfer(sync, transfer))
            raise_alarm(sync, true);
    }
    return ncompleted;
}

/* Closing waits for what others still need from us (parameters being sent); a failure waits for
 * nothing. */
static void try_close(struct sync *sync)
{
    MPI_Request request;

    if (!sync->close_asked || sync->close_posted)
        return;
    if (!atomic_load(&sync->failed) &&
        (sync->sendq.count > 0 || sync->nwaiting > 0 || node_busy(sync) || team_busy(sync) ||
         ps_busy(sync) || sync->nrequests > sync->idle_receives))
        return;
    sync->close_posted = true;
    if (MPI_Iallreduce(&sync->my_failing, &sync->lowest_failing, 1, MPI_INT, MPI_MIN, sync->closing,
                       &request) != MPI_SUCCESS ||
        progress_track(sync, request, (struct transfer){.kind = TRANSFER_CLOSE}))
        sync->stop = true;
}

/* A message that nobody expects while everybody waits: some rank is out of step. */
static int look_for_stray(struct sync *sync)
{
    MPI_Status status;
    int found = 0;

    if (!sync->speaks)
        return 0;
    MPI_TRY(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, sync->data, &found, &status));
    if (!found)
        return 0;
    int tag = status.MPI_TAG, nchunks = sync->plan->nchunks;
    int chunk = tag / 2 % nchunks;
    return error_set(
        "rank %d is out of step: it sent %s of layer '%s' (chunk %d, iteration %d modulo "
        "%lld), which nobody here waits for",
        sync->plan->world_rank[status.MPI_SOURCE], tag % 2 ? "parameters" : "a gradient",
        sync->plan->buckets[sync->plan->chunks[chunk].bucket].name, chunk, tag / 2 / nchunks,
        (long long)sync->tag_period);
fail:
    return -1;
}

static void tell_stall(struct sync *sync, double seconds)
{
    char text[512];
    size_t used =
        (size_t)snprintf(text, sizeof text, "rank %d has waited %.0f s", sync->world_rank, seconds);
    int told = (sync->team ? team_describe_wait : node_describe_wait)(sync, text + used,
                                                                      sizeof text - used);

    used += strlen(text + used);
    for (int i = 0; i < sync->nrequests && told < 3 && used < sizeof text; i++) {
        const struct transfer *t = &sync->transfers[i];
        if (t->kind != TRANSFER_SYNCER || (sync->worker && sync->groups[t->group].pending == 0))
            continue; /* a gradient that need not be here yet */
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s layer '%s'",
                                 told++ ? ";" : " for", t->bytes ? "data of" : "the sending of",
                                 sync->plan->buckets[t->group].name);
        if (t->peer >= 0 && used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used, " (rank %d)",
                                     sync->plan->world_rank[t->peer]);
    }
    if (sync->options.warn)
        sync->options.warn(sync->options.warn_context, text);
}

static void watch_stall(struct sync *sync)
{
    double waited = clock_seconds() - sync->last_progress;

    if (!atomic_load(&sync->sleeping) || waited < sync->options.stall_seconds || sync->stall_told)
        return;
    sync->stall_told = true;
    if (look_for_stray(sync))
        raise_alarm(sync, true);
    else
        tell_stall(sync, waited);
}

static long rest_length(struct sync *sync, int idle_polls, bool waited_for)
{
    bool under_way = sync->nrequests > 1 || sync->sendq.count > 0 || node_busy(sync);
    int most = under_way ? DOUBLINGS_UNDER_WAY : DOUBLINGS_AT_MOST, polls = POLLS_A_DOUBLING;

    if (!sync->worker || sync->nwaiting > 0 || ps_busy(sync) || team_busy(sync))
        return REST_NS; /* a server has nothing else to do; a device's clock runs, which costs no
                           core */
    if (waited_for) {
        most = DOUBLINGS_WAITED_FOR;
        polls = POLLS_A_DOUBLING_WAITED_FOR;
    }
    return (long)REST_NS << (idle_polls / polls < most ? idle_polls / polls : most);
}

static void rest(struct sync *sync, int idle_polls, bool waited_for)
{
    struct timespec until;

    if (waited_for && idle_polls < SPINS_WHILE_WAITED_FOR) {
        sched_yield();
        return;
    }
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += rest_length(sync, idle_polls, waited_for);
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    atomic_store(&sync->resting, 1);
    if (atomic_load(&sync->head) == atomic_load(&sync->tail))
        sem_timedwait(&sync->bell, &until);
    atomic_store(&sync->resting, 0);
}

/* What is still open are receives nobody will fill. After a failure it can be anything, matched or
 * not: nothing of it can be taken back safely, and the process is about to end. */
static void drop_requests(struct sync *sync)
{
    for (int i = 0; i < sync->nrequests && !atomic_load(&sync->failed); i++) {
        MPI_Cancel(&sync->requests[i]);
        MPI_Wait(&sync->requests[i], MPI_STATUS_IGNORE);
    }
    sync->nrequests = 0;
}

static int open_traffic(struct sync *sync)
{
    MPI_Request request;

    MPI_TRY(MPI_Irecv(&sync->alarm_in, 1, MPI_INT, MPI_ANY_SOURCE, TAG_ALARM, sync->all, &request));
    if (progress_track(
            sync, request,
            (struct transfer){.kind = TRANSFER_ALARM, .bytes = sizeof(int), .idle = true}))
        return -1;
    for (int g = 0; g < sync->plan->nbuckets; g++) {
        const struct syncer_i *syncer = sync->groups[g].syncer;
        if (syncer && syncer->start && syncer->start(sync, g))
            return -1;
    }
    return ps_start(sync);
fail:
    return -1;
}

/* What goes on beside the transfers, if it does; returns whether something came of it. */
static int look_after(struct sync *sync, bool busy, int (*poll)(struct sync *sync))
{
    int moved = busy && !atomic_load(&sync->failed) ? poll(sync) : 0;

    if (moved < 0)
        raise_alarm(sync, true);
    return moved != 0;
}

void *progress_main(void *argument)
{
    struct sync *sync = argument;
    double start = clock_seconds();
    struct timespec used;
    int idle_polls = 0;
    bool waited_for = false;

    prctl(PR_SET_TIMERSLACK, 1000UL); /* the default of 50 us would double every rest */
    if ((sync->direct && sync->remote->enter(sync->net->engine->context)) || open_traffic(sync))
        raise_alarm(sync, true);
    sync->last_progress = clock_seconds();
    while (!sync->stop) {
        int worked = drain_events(sync);
        if (sync->nwaiting > 0)
            worked += post_waiting(sync);
        worked += poll_requests(sync);
        worked += look_after(sync, node_busy(sync), node_poll);
        worked += look_after(sync, sync->team != NULL, team_poll);
        worked += look_after(sync, ps_busy(sync), ps_poll);
        if (atomic_load(&sync->failed))
            team_abort(sync);
        if (!atomic_load(&sync->failed) &&
            sendq_flush(sync)) /* room in the window, or under the cap */
            raise_alarm(sync, true);
        try_close(sync);
        if (worked) {
            idle_polls = 0;
            sync->last_progress = clock_seconds();
            sync->stall_told = false;
            continue;
        }
        bool waits = atomic_load(&sync->sleeping);
        if (waits && !waited_for)
            idle_polls = 0; /* what went before was no hurry */
        waited_for = waits;
        rest(sync, idle_polls++, waited_for);
        if (idle_polls % 1000 == 0)
            watch_stall(sync);
    }
    drop_requests(sync);
    sync->stats.progress_seconds = clock_seconds() - start;
    if (!clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used))
        sync->stats.progress_cpu_seconds = (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
    return NULL;
}
