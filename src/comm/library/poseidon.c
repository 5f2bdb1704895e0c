/* The functions of include/poseidon.h: the order of posts and waits, and failures. */
#include "library/library.h"

#include "util/agree.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/launcher.h"
#include "util/strbuf.h"
#include "util/units.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

#define HIDDEN 0.02 /* share of the time; less waiting is not reported */

const char *poseidon_version(void)
{
    return PACKAGE_VERSION;
}

const char *poseidon_error(void)
{
    return error_text();
}

/* ---- failures ---- */

/* Keeps this thread's message; no call succeeds from now on. */
static int keep_failure(struct poseidon *p)
{
    free(p->failure);
    p->failure = strdup(error_text());
    return -1;
}

int library_end(struct poseidon *p)
{
    (void)sync_close(p->exchange.sync, -1);
    return keep_failure(p);
}

int library_check(const struct poseidon *p, bool started)
{
    if (!p)
        return error_set("no handle: NULL");
    if (p->failure)
        return error_set("%s", p->failure);
    if (started != (p->exchange.sync != NULL))
        return error_set("poseidon_start was %s", started ? "not called yet" : "called already");
    return 0;
}

static struct member *find_member(const struct poseidon *p, int tensor)
{
    if (tensor >= 0 && tensor < p->nmembers)
        return &p->members[tensor];
    error_set("there is no tensor %d: %d were added", tensor, p->nmembers);
    return NULL;
}

int library_meet(struct poseidon *p, int status)
{
    if (library_check(p, false) && !(p && p->untold))
        return -1;
    if (error_agree(p->comm, p->untold)) {
        p->untold = false;
        return keep_failure(p);
    }
    return error_agree(p->comm, status);
}

int poseidon_fail(struct poseidon *p, const char *message)
{
    if (!p || p->failure)
        return library_check(p, true);
    error_set("%s", message ? message : "the program cannot go on");
    p->untold = !p->exchange.sync;
    return p->exchange.sync ? library_end(p) : keep_failure(p);
}

/* ---- life ---- */

static int check_mpi(void)
{
    int begun = 0, over = 0, level = MPI_THREAD_SINGLE, size = 0;

    if (MPI_Initialized(&begun) || MPI_Finalized(&over) || !begun || over)
        return error_set("MPI is not initialised: call MPI_Init_thread first, MPI_Finalize last");
    if (MPI_Query_thread(&level) || level != MPI_THREAD_MULTIPLE)
        return error_set("MPI was initialised with too low a thread level: call MPI_Init_thread "
                         "with MPI_THREAD_MULTIPLE");
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size == 1 ? launcher_check(true, NULL) : 0;
}

/* Returns true if some of the iteration's tensors were posted, and not all. */
static bool is_within(const struct poseidon *p)
{
    return p->left_to_post < p->nmembers;
}

static int say_missing(const struct poseidon *p, const char *what)
{
    return error_set("%s: tensor '%s' was neither posted nor skipped in iteration %lld", what,
                     p->members[atomic_load(&p->missing)].tensor.name,
                     (long long)atomic_load(&p->iteration));
}

/* Ends all that needs MPI: the traffic, then the communicator. Collective. */
static int end_all(struct poseidon *p)
{
    int status = 0;

    if (!p->exchange.sync && (!p->failure || p->untold)) /* ends waits in poseidon_start, if any */
        (void)error_agree(p->comm, error_set("%s", p->failure ? p->failure
                                                              : "poseidon_destroy was called "
                                                                "before poseidon_start"));
    if (p->exchange.sync && !p->failure &&
        sync_close(p->exchange.sync, is_within(p) ? say_missing(p, "poseidon_destroy") : 0))
        status = keep_failure(p);
    else if (p->failure)
        status = error_set("%s", p->failure);
    if (p->exchange.sync && p->trace && !status)
        status = library_write_trace(p);
    library_release(p, p->exchange.sync && p->failure);
    MPI_Comm_free(&p->comm);
    return status;
}

/* Ends the traffic in MPI_Finalize, which deletes MPI_COMM_SELF's attributes first: the last moment
 * at which the wire's thread can end. The handle stays, for later calls of the program. */
static int end_late(MPI_Comm self, int key, void *handle, void *unused)
{
    struct poseidon *p = handle;

    (void)self, (void)key, (void)unused;
    if (p->comm == MPI_COMM_NULL)
        return MPI_SUCCESS;
    error_set("MPI_Finalize was called before poseidon_destroy: call poseidon_destroy first");
    if (p->rank == 0)
        fprintf(stderr, "poseidon: %s\n", error_text());
    (void)end_all(p);
    error_set("MPI_Finalize was called before poseidon_destroy");
    (void)keep_failure(p);
    return MPI_SUCCESS;
}

int poseidon_create(MPI_Comm comm, const char *options, struct poseidon **out)
{
    struct poseidon *p;

    if (!out)
        return error_set("poseidon_create: the pointer to the handle is NULL");
    *out = NULL;
    if (check_mpi())
        return -1;
    if (comm == MPI_COMM_NULL)
        return error_set("poseidon_create: MPI_COMM_NULL");
    if (error_agree(comm, ALLOC(p, 1, "a handle"))) {
        free(p);
        return -1;
    }
    p->comm = MPI_COMM_NULL;
    p->key = MPI_KEYVAL_INVALID;
    MPI_TRY(MPI_Comm_dup(comm, &p->comm));
    MPI_TRY(MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, end_late, &p->key, NULL));
    MPI_TRY(MPI_Comm_set_attr(MPI_COMM_SELF, p->key, p));
    MPI_TRY(MPI_Comm_set_errhandler(p->comm, MPI_ERRORS_RETURN));
    MPI_TRY(MPI_Comm_rank(p->comm, &p->rank));
    MPI_TRY(MPI_Comm_size(p->comm, &p->nranks));
    if (error_agree(p->comm, option_string_parse(options ? options : "", &p->words)))
        goto fail;
    p->rates[0] = p->rates[1] = p->words.rate;
    *out = p;
    return 0;
fail:
    (void)keep_failure(p);
    return poseidon_destroy(p);
}

int poseidon_destroy(struct poseidon *p)
{
    int status = 0;

    if (!p)
        return 0;
    if (p->comm != MPI_COMM_NULL) {
        status = end_all(p);
        if (p->key != MPI_KEYVAL_INVALID) {
            (void)MPI_Comm_delete_attr(MPI_COMM_SELF, p->key);
            (void)MPI_Comm_free_keyval(&p->key);
        }
    } else
        status = error_set("%s", p->failure);
    for (int i = 0; i < p->nmembers; i++)
        free((char *)(uintptr_t)p->members[i].tensor.name);
    free(p->members);
    strbuf_free(&p->about);
    free(p->plan_text);
    free(p->state);
    free(p->failure);
    free(p->advice);
    free(p->words.given);
    free(p->words.text);
    free(p);
    return status;
}

/* ---- set-up ---- */

static int check_tensor(const struct poseidon *p, const struct poseidon_tensor *t)
{
    if (!t || !t->name || !*t->name)
        return error_set("poseidon_add: the tensor's name is NULL");
    for (int i = 0; i < p->nmembers; i++)
        if (!strcmp(p->members[i].tensor.name, t->name))
            return error_set("tensor '%s' was added already", t->name);
    if (t->elems == 0 || t->elems > INT32_MAX)
        return error_set("tensor '%s': %zu elements; expected 1 to %d", t->name, t->elems,
                         INT32_MAX);
    if (p->words.result == RESULT_VALUES && !t->values)
        return error_set("tensor '%s': result=values needs its values, which are NULL", t->name);
    if ((t->rows || t->outputs || t->inputs) &&
        (t->rows < 0 || t->outputs < 1 || t->inputs < 1 || t->rows > INT32_MAX ||
         t->outputs > INT32_MAX || (uint64_t)t->outputs * (uint64_t)t->inputs != t->elems))
        return error_set("tensor '%s': %lld rows, %lld outputs and %lld inputs; expected outputs "
                         "x inputs = %zu, with rows for an inner product, or all of them 0",
                         t->name, (long long)t->rows, (long long)t->outputs, (long long)t->inputs,
                         t->elems);
    return 0;
}

int poseidon_add_at(struct poseidon *p, const struct poseidon_tensor *tensor,
                    const struct poseidon_place *place, int *out)
{
    char *name;

    if (library_check(p, false) || check_tensor(p, tensor))
        return -1;
    if (!place)
        return error_set("poseidon_add_at: the tensor's place is NULL");
    if (library_check_place(p, tensor, place) || ALLOC_ROOM(p->members, p->nmembers, "a tensor") ||
        alloc_text(&name, tensor->name, "a tensor"))
        return -1;
    p->members[p->nmembers] =
        (struct member){.tensor = *tensor, .type = (enum element_type)place->type};
    p->members[p->nmembers].tensor.name = name;
    if (out)
        *out = p->nmembers;
    p->nmembers++;
    return 0;
}

int poseidon_add(struct poseidon *p, const struct poseidon_tensor *tensor, int *out)
{
    return poseidon_add_at(p, tensor,
                           &(struct poseidon_place){.size = sizeof(struct poseidon_place)}, out);
}

int poseidon_start(struct poseidon *p)
{
    if (library_meet(p, 0))
        return -1;
    p->left_to_post = p->nmembers;
    if (library_prepare_all(p)) {
        sync_destroy(p->exchange.sync); /* no message is under way yet */
        p->exchange.sync = NULL;
        return keep_failure(p);
    }
    return sync_start(p->exchange.sync) ? library_end(p) : 0;
}

int poseidon_share(struct poseidon *p, void *bytes, size_t count)
{
    uint64_t all = count;

    if (library_meet(p, bytes || count == 0
                            ? 0
                            : error_set("poseidon_share: %zu bytes at %p", count, bytes)) ||
        agree_share(p->comm, &all, sizeof all) ||
        error_agree(p->comm, all == count ? 0
                                          : error_set("poseidon_share: %zu bytes here, but %llu on "
                                                      "rank 0: give the same number on all ranks",
                                                      count, (unsigned long long)all)))
        return -1;
    return agree_share(p->comm, bytes, count);
}

float *poseidon_gradient(struct poseidon *p, int tensor)
{
    const struct member *m = p ? find_member(p, tensor) : NULL;

    return m ? m->tensor.gradient : NULL;
}

int poseidon_takes_factors(struct poseidon *p, int tensor)
{
    const struct member *m = library_check(p, true) ? NULL : find_member(p, tensor);

    return m ? m->factors : -1;
}

/* ---- an iteration ---- */

/* Fails if the tensor must not be posted now. */
static int check_post(struct poseidon *p, int tensor, bool factors)
{
    const struct member *m;
    long long iteration;

    if (library_check(p, true))
        return -1;
    m = find_member(p, tensor);
    if (!m)
        return library_end(p);
    iteration = atomic_load(&p->iteration);
    if (m->posted <= iteration && !m->waits && m->factors == factors)
        return library_catch_up(p);
    if (m->posted > iteration)
        error_set("tensor '%s' was posted or skipped twice in iteration %lld, and '%s' not at all",
                  m->tensor.name, iteration, p->members[atomic_load(&p->missing)].tensor.name);
    else if (m->waits)
        error_set("tensor '%s' was not waited for before its post in iteration %lld",
                  m->tensor.name, iteration);
    else
        error_set("tensor '%s' travels %s: poseidon_takes_factors says what to call",
                  m->tensor.name, m->factors ? "as factors" : "whole");
    return library_end(p);
}

static int post(struct poseidon *p, int tensor)
{
    struct member *m = &p->members[tensor];
    int missing = atomic_load_explicit(&p->missing, memory_order_relaxed);
    int64_t iteration = atomic_load_explicit(&p->iteration, memory_order_relaxed);

    m->posted = iteration + 1;
    m->waits = true;
    if (sync_post(p->exchange.sync, tensor, true))
        return library_end(p);
    while (missing < p->nmembers && p->members[missing].posted > iteration)
        missing++;
    if (--p->left_to_post == 0) {
        if (sync_flush(p->exchange.sync))
            return library_end(p);
        p->left_to_post = p->nmembers;
        p->caught_up = false;
        trace_span(p->trace, TRACE_COMPUTE, TRACE_ITERATION, -1, p->began);
        p->began = trace_begin(p->trace);
        trace_iteration(p->trace, iteration + 1);
        p->rates[(iteration + 1) % 2] = p->rates[iteration % 2];
        atomic_store_explicit(&p->iteration, iteration + 1, memory_order_relaxed);
        missing = 0;
    }
    atomic_store_explicit(&p->missing, missing, memory_order_relaxed);
    return 0;
}

/* Waits until a GPU has done everything that it was asked for. */
static int finish(struct poseidon *p)
{
    return p->device.i->finish && p->device.i->finish(p->device.context) ? library_end(p) : 0;
}

int poseidon_post(struct poseidon *p, int tensor)
{
    if (check_post(p, tensor, false))
        return -1;
    return library_take_gradient(p, tensor, false) ? library_end(p) : post(p, tensor);
}

int poseidon_post_on(struct poseidon *p, int tensor, void *stream)
{
    return library_follow(p, stream) ? -1 : poseidon_post(p, tensor);
}

static int post_factors(struct poseidon *p, int tensor, int64_t rows, const float *left,
                        const float *right)
{
    if (check_post(p, tensor, true))
        return -1;
    if (rows != p->members[tensor].tensor.rows || !left || !right) {
        error_set("tensor '%s': factors of %lld rows at %p and %p; expected %lld rows",
                  p->members[tensor].tensor.name, (long long)rows, (const void *)left,
                  (const void *)right, (long long)p->members[tensor].tensor.rows);
        return library_end(p);
    }
    return library_take_factors(p, tensor, left, right) ? library_end(p) : post(p, tensor);
}

int poseidon_post_factors(struct poseidon *p, int tensor, int64_t rows, const float *left,
                          const float *right)
{
    return post_factors(p, tensor, rows, left, right) ? -1 : finish(p);
}

int poseidon_post_factors_on(struct poseidon *p, int tensor, int64_t rows, const float *left,
                             const float *right, void *stream)
{
    if (library_follow(p, stream) || post_factors(p, tensor, rows, left, right))
        return -1;
    return library_precede(p, stream);
}

int poseidon_skip(struct poseidon *p, int tensor)
{
    bool factors = p && tensor >= 0 && tensor < p->nmembers && p->members[tensor].factors;

    if (check_post(p, tensor, factors))
        return -1;
    if (factors ? library_take_factors(p, tensor, NULL, NULL)
                : library_take_gradient(p, tensor, true))
        return library_end(p);
    return post(p, tensor);
}

static int wait_for(struct poseidon *p, int tensor)
{
    struct member *m;

    if (library_check(p, true))
        return -1;
    m = find_member(p, tensor);
    if (!m || (is_within(p) && say_missing(p, "poseidon_wait")) ||
        (m->waits && sync_wait(p->exchange.sync, tensor)) || p->gave)
        return library_end(p);
    m->waits = false;
    return 0;
}

int poseidon_wait(struct poseidon *p, int tensor)
{
    return wait_for(p, tensor) ? -1 : finish(p);
}

int poseidon_wait_on(struct poseidon *p, int tensor, void *stream)
{
    return library_check_stream(p) || wait_for(p, tensor) ? -1 : library_precede(p, stream);
}

int poseidon_wait_all(struct poseidon *p)
{
    if (library_check(p, true))
        return -1;
    for (int i = 0; i < p->nmembers; i++)
        if (poseidon_wait(p, i))
            return -1;
    return 0;
}

int poseidon_set_rate(struct poseidon *p, float rate)
{
    if (library_check(p, true))
        return -1;
    if ((is_within(p) && say_missing(p, "poseidon_set_rate")) ||
        (!(rate >= 0 && rate < INFINITY) &&
         error_set("poseidon_set_rate: expected a rate of 0 or more, found %g", (double)rate)))
        return library_end(p);
    p->rates[atomic_load(&p->iteration) % 2] = rate;
    return 0;
}

/* ---- traffic and waiting ---- */

static const char *name_way(const struct poseidon *p, int bucket)
{
    return plan_is_alone(p->exchange.plan) ? "-" : p->exchange.plan->buckets[bucket].label.text;
}

int poseidon_report(struct poseidon *p, int tensor, struct poseidon_traffic *out)
{
    const struct bucket_stats *did;
    const struct bucket *b;
    struct traffic planned;
    int bucket;

    if (library_check(p, true) || !find_member(p, tensor))
        return -1;
    if (!out)
        return error_set("poseidon_report: the pointer to the report is NULL");
    bucket = p->exchange.plan->bucket_of[tensor];
    b = &p->exchange.plan->buckets[bucket];
    did = &sync_stats(p->exchange.sync)->buckets[bucket];
    planned = plan_traffic(p->exchange.plan, bucket, p->rank);
    *out = (struct poseidon_traffic){
        .first = b->first_group,
        .tensors = b->ngroups,
        .planned_sent = planned.sent,
        .planned_received = planned.received,
        .sent = atomic_load(&did->sent),
        .received = atomic_load(&did->received),
        .predicted_seconds = p->costs ? p->costs[bucket].seconds : 0,
        .travel_seconds = (double)atomic_load(&did->travel_ns) * 1e-9,
        .waited_seconds = did->stall_seconds,
    };
    snprintf(out->scheme, sizeof out->scheme, "%s", name_way(p, bucket));
    return 0;
}

const char *poseidon_advice(struct poseidon *p)
{
    const struct sync_stats *did;
    struct strbuf text = {0};
    int most = 0;

    if (library_check(p, true))
        return error_text();
    did = sync_stats(p->exchange.sync);
    for (int b = 1; b < p->exchange.plan->nbuckets; b++)
        if (did->buckets[b].stall_seconds > did->buckets[most].stall_seconds)
            most = b;
    strbuf_printf(&text, "Waited %s of %s", units_seconds(did->stall_seconds).text,
                  units_seconds(did->wire.seconds).text);
    if (did->stall_seconds > HIDDEN * did->wire.seconds) {
        const struct bucket *b = &p->exchange.plan->buckets[most];
        strbuf_printf(&text,
                      plan_is_alone(p->exchange.plan)
                          ? ", most for '%s': the wait was for other ranks, not for messages"
                          : ", most for '%s' by %s%s",
                      b->name, name_way(p, most),
                      b->scheme->lossy       ? ""
                      : b->wire != WIRE_FP32 ? ": comm=lowrank sends less"
                                             : ": wire=bf16 or comm=lowrank send less");
    }
    free(p->advice);
    p->advice = strbuf_take(&text);
    return p->advice ? p->advice : error_text();
}
