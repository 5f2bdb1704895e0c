/* Life of a wire, and the compute thread's side: calls, waits, closing.
 *
 * No wake-up is lost: a thread announces its sleep, then looks for work once more; the other thread
 * adds work, then looks for sleepers. All four steps are sequentially consistent, so one of the
 * threads always notices. */
#include "wire/wire_internal.h"

#include "util/agree.h"
#include "util/alloc.h"
#include "util/clock.h"
#include "util/error.h"
#include "util/thread.h"

#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

static int open_parts(struct wire *wire, MPI_Comm world)
{
    MPI_CHECK(MPI_Comm_dup(world, &wire->comm));
    MPI_CHECK(MPI_Comm_set_errhandler(wire->comm, MPI_ERRORS_RETURN));
    if (wire->options.data != MPI_COMM_NULL)
        MPI_CHECK(MPI_Comm_set_errhandler(wire->options.data, MPI_ERRORS_RETURN));
    return error_status(call_ring_open(&wire->calls, &wire->owner, wire->options.calls) ||
                        messages_open(wire) || heartbeat_open(wire));
}

int wire_open(MPI_Comm world, const struct wire_options *options, struct wire **out)
{
    struct wire *wire;

    assert(options->data == MPI_COMM_NULL || options->accept);
    assert(options->messages >= 0);
    *out = NULL;
    if (error_agree(world, ALLOC(wire, 1, "the wire"))) {
        free(wire);
        return -1;
    }
    wire->options = *options;
    wire->comm = MPI_COMM_NULL;
    MPI_Comm_rank(world, &wire->rank);
    MPI_Comm_size(world, &wire->nranks);
    sem_init(&wire->wakeup, 0, 0);
    sem_init(&wire->wake, 0, 0);
    if (error_agree(world, open_parts(wire, world))) {
        wire_destroy(wire);
        return -1;
    }
    *out = wire;
    return 0;
}

void wire_destroy(struct wire *wire)
{
    int over = 0;

    if (!wire)
        return;
    assert(!wire->started);
    if (wire->comm != MPI_COMM_NULL && MPI_Finalized(&over) == MPI_SUCCESS && !over)
        MPI_Comm_free(&wire->comm);
    messages_close(wire);
    owner_free(&wire->owner);
    sem_destroy(&wire->wakeup);
    sem_destroy(&wire->wake);
    free(wire);
}

static void *thread_main(void *argument)
{
    struct wire *wire = argument;

    while (sem_wait(&wire->wakeup)) /* until wire->thread is set */
        ;
    prctl(PR_SET_NAME, "wire");
    prctl(PR_SET_TIMERSLACK, 1000UL); /* the default slack of 50 us would double every rest */
    thread_run(wire, true);
    atomic_store(&wire->cpu_ns, (int64_t)(1e9 * clock_thread_seconds()));
    return NULL;
}

int wire_start(struct wire *wire)
{
    assert(!wire->started && !wire->closed);
    if (thread_start(&wire->thread, NULL, thread_main, wire))
        return error_set("cannot start the communication thread");
    wire->started = true;
    sem_post(&wire->wakeup);
    return 0;
}

/* Wakes the wire thread if it rests. */
static void wake(struct wire *wire)
{
    if (atomic_load(&wire->resting) && atomic_exchange(&wire->resting, 0))
        sem_post(&wire->wakeup);
}

void wire_call(struct wire *wire, wire_call_fn *call, void *context, int64_t argument)
{
    struct ring_call mail = {.call = call, .context = context, .argument = argument};

    assert(!wire->closed);
    assert(!wire->started || !pthread_equal(pthread_self(), wire->thread));
    while (!call_ring_put(&wire->calls, mail)) {
        assert(wire->started); /* only a running wire thread makes room */
        sched_yield();
    }
    wake(wire);
}

int wire_failed(struct wire *wire)
{
    if (!atomic_load(&wire->failed))
        return 0;
    atomic_store(&wire->failure_seen, 1);
    return error_set("another rank failed"); /* wire_close agrees on the message */
}

int wire_wait(struct wire *wire, const _Atomic int64_t *counter, int64_t target, double *seconds)
{
    double start;

    assert(wire->started && !pthread_equal(pthread_self(), wire->thread));
    if (atomic_load_explicit(counter, memory_order_acquire) >= target)
        return wire_failed(wire);
    start = clock_seconds();
    while (atomic_load_explicit(counter, memory_order_acquire) < target &&
           !atomic_load(&wire->failed)) {
        atomic_store(&wire->sleeping, 1);
        if (atomic_load(counter) >= target || atomic_load(&wire->failed)) {
            if (!atomic_exchange(&wire->sleeping, 0))
                while (sem_wait(&wire->wake)) /* wire_wake has posted `wake` already */
                    ;
            break;
        }
        wake(wire); /* from now on the wire thread's rests are short */
        while (sem_wait(&wire->wake))
            ;
    }
    if (seconds)
        *seconds += clock_seconds() - start;
    return wire_failed(wire);
}

void wire_wake(struct wire *wire)
{
    if (atomic_exchange(&wire->sleeping, 0))
        sem_post(&wire->wake);
}

int wire_close(struct wire *wire, int status)
{
    char *mine = NULL;

    assert(!wire->closed);
    assert(!wire->started || !pthread_equal(pthread_self(), wire->thread));
    /* after a failure elsewhere this rank's status is a mere consequence */
    wire->compute_failed = status && !atomic_load(&wire->failure_seen);
    if (wire->compute_failed)
        mine = strdup(error_text());
    atomic_store(&wire->close_asked, 1);
    if (wire->started) {
        wake(wire);
        pthread_join(wire->thread, NULL);
        wire->started = false;
    } else {
        thread_run(wire, false); /* other ranks may close already, and wait for this rank */
    }
    wire->closed = true;
    if (wire->options.sends.meter)
        link_meter_look(wire->options.sends.meter, clock_seconds());
    if (wire->own_failure)
        error_set("%s", wire->failure);
    else if (wire->compute_failed)
        error_set("%s", mine ? mine : "unknown failure");
    free(mine);
    return error_agree(wire->comm, wire->own_failure || wire->compute_failed);
}

/* Returns the processor time of the wire thread so far. */
static double cpu_seconds(const struct wire *wire)
{
    struct timespec used;
    clockid_t clock;

    if (wire->started && !pthread_getcpuclockid(wire->thread, &clock) &&
        !clock_gettime(clock, &used))
        return (double)used.tv_sec + 1e-9 * (double)used.tv_nsec;
    return 1e-9 * (double)atomic_load(&wire->cpu_ns);
}

struct wire_stats wire_stats(const struct wire *wire)
{
    const struct wire_counters *counters = &wire->counters;
    int64_t begun = atomic_load(&wire->begun), ran = atomic_load(&wire->run_ns);

    if (begun && !ran)
        ran = clock_ns() - begun;
    return (struct wire_stats){
        .sent = atomic_load(&counters->sent),
        .received = atomic_load(&counters->received),
        .control_sent = atomic_load(&counters->control_sent),
        .messages_sent = atomic_load(&counters->messages_sent),
        .messages_received = atomic_load(&counters->messages_received),
        .polls = atomic_load(&counters->polls),
        .rests = atomic_load(&counters->rests),
        .cpu_seconds = cpu_seconds(wire),
        .seconds = 1e-9 * (double)ran,
    };
}
