/* The state that a resumed run needs beside its values, as bytes: a head, floats (arena by arena,
 * in sync's order), the description of the run and the plan as texts, and a checksum. */
#include "library/library.h"

#include "util/agree.h"
#include "util/agreement.h"
#include "util/alloc.h"
#include "util/crc32c.h"
#include "util/error.h"
#include "util/strbuf.h"

#include <stdlib.h>
#include <string.h>

enum { SUM_BYTES = sizeof(uint32_t) };
static const char magic[16] = "poseidon state 3";

struct head {
    char magic[16];
    uint64_t bytes, floats; /* number of all bytes, checksum included; bytes of the floats */
    uint64_t about, plan;   /* bytes of the texts, each with its NUL */
    int64_t iteration;      /* first iteration to come */
    double rate;
};

static size_t count_arenas(const struct poseidon *p)
{
    struct sync_residuals of = sync_residuals(p->exchange.sync);

    return (size_t)sync_residual_arenas(&of) + (size_t)p->words.rule.nhistory;
}

static struct head describe_state(const struct poseidon *p)
{
    int64_t iteration = atomic_load(&p->iteration);
    struct head head = {.floats = count_arenas(p) * p->elems * sizeof(float),
                        .about = p->about.length + 1,
                        .plan = strlen(p->plan_text) + 1,
                        .iteration = iteration,
                        .rate = (double)p->rates[iteration % 2]};

    memcpy(head.magic, magic, sizeof magic);
    head.bytes = sizeof head + head.floats + head.about + head.plan + SUM_BYTES;
    return head;
}

/* ---- out ---- */

size_t poseidon_state_size(struct poseidon *p)
{
    return library_check(p, true) || p->rank > 0 ? 0 : describe_state(p).bytes;
}

/* Gathers each arena in turn on rank 0, and there in `out`. */
static int gather_arenas(struct poseidon *p, char *out)
{
    size_t bytes = p->elems * sizeof(float), all = count_arenas(p),
           residuals = all - (size_t)p->words.rule.nhistory;
    const float *history = NULL;
    float *arena;

    for (size_t i = 0; i < residuals; i++) {
        if (sync_gather_residuals(p->exchange.sync, (int)i, &arena))
            return -1;
        if (arena)
            memcpy(out + i * bytes, arena, bytes);
    }
    if (all > residuals && sync_gather_history(p->exchange.sync, &history))
        return -1;
    if (history)
        memcpy(out + residuals * bytes, history, (all - residuals) * bytes);
    return 0;
}

int poseidon_state_get(struct poseidon *p, void *buffer, size_t room)
{
    struct head head;
    char *out = buffer;
    uint32_t sum;

    if (poseidon_wait_all(p))
        return -1;
    head = describe_state(p);
    if (p->rank == 0 && (!buffer || room < head.bytes)) {
        error_set("poseidon_state_get: %zu bytes at %p; expected the %llu of poseidon_state_size",
                  room, buffer, (unsigned long long)head.bytes);
        return library_end(p);
    }
    if (gather_arenas(p, p->rank == 0 ? out + sizeof head : NULL))
        return library_end(p);
    if (p->rank > 0)
        return 0;
    memcpy(out, &head, sizeof head);
    memcpy(out + sizeof head + head.floats, strbuf_text(&p->about), head.about);
    memcpy(out + sizeof head + head.floats + head.about, p->plan_text, head.plan);
    sum = crc32c(0, out, head.bytes - SUM_BYTES);
    memcpy(out + head.bytes - SUM_BYTES, &sum, SUM_BYTES);
    return 0;
}

/* ---- in ---- */

static int check_bytes(const void *bytes, size_t count)
{
    struct head head;
    uint32_t sum;

    if (!bytes || count < sizeof head || memcmp(bytes, magic, sizeof magic) != 0)
        return error_set(
            "poseidon_state_set: the %zu bytes at %p are not a state from poseidon_state_get",
            count, bytes);
    memcpy(&head, bytes, sizeof head);
    if (head.bytes != count)
        return error_set(
            "poseidon_state_set: found %zu bytes of a state of %llu: give the whole state", count,
            (unsigned long long)head.bytes);
    sum = crc32c(0, bytes, count - SUM_BYTES);
    if (memcmp((const char *)bytes + count - SUM_BYTES, &sum, SUM_BYTES) != 0 || head.about < 2 ||
        head.plan < 1)
        return error_set("poseidon_state_set: the state is damaged: its checksum does not match");
    return 0;
}

static int keep_state(struct poseidon *p, const void *bytes, size_t count, struct head *head)
{
    if (check_bytes(bytes, count) || ALLOC(p->state, count, "the state"))
        return -1;
    memcpy(p->state, bytes, count);
    memcpy(head, bytes, sizeof *head);
    return alloc_text(&p->plan_text, p->state + head->bytes - SUM_BYTES - head->plan,
                      "the state's plan");
}

int poseidon_state_set(struct poseidon *p, const void *bytes, size_t count)
{
    struct head head = {.bytes = 0};
    int status;

    if (library_meet(p, 0))
        return -1;
    free(p->state);
    free(p->plan_text);
    p->state = p->plan_text = NULL;
    p->resumes = false;
    atomic_store(&p->iteration, 0);
    status = p->rank == 0 ? keep_state(p, bytes, count, &head) : 0;
    if (error_agree(p->comm, status) || agree_share(p->comm, &head, sizeof head) ||
        agree_share_text(p->comm, &p->plan_text))
        return -1;
    p->resumes = true;
    atomic_store(&p->iteration, head.iteration);
    p->rates[head.iteration % 2] = (float)head.rate;
    return 0;
}

/* Fails if the state is of other tensors or schemes; called on rank 0. */
static int check_job(const struct poseidon *p)
{
    const char *here = strbuf_text(&p->about), *there;
    struct strbuf text = {0};
    struct head head;
    int status;

    memcpy(&head, p->state, sizeof head);
    there = p->state + sizeof head + head.floats;
    /* skips the first line, "options\t...": some options may differ */
    agreement_difference(there + strcspn(there, "\n"), here + strcspn(here, "\n"), &text);
    status = strbuf_status(&text);
    if (!status && (text.length || head.floats != describe_state(p).floats))
        status = error_set("poseidon_start: the state is from another job with options %.*s: %s",
                           (int)strcspn(there, "\n") - 8, there + 8, strbuf_text(&text));
    strbuf_free(&text);
    return status;
}

int library_load_state(struct poseidon *p)
{
    struct sync_residuals of = sync_residuals(p->exchange.sync);
    const float *arenas =
        p->state ? (const float *)(const void *)(p->state + sizeof(struct head)) : NULL;
    size_t left = 0;
    int n = sync_residual_arenas(&of), status = 0;

    if (!p->resumes)
        return 0;
    if (error_agree(p->comm, p->rank == 0 ? check_job(p) : 0))
        return -1;
    for (int i = 0; i < n && !status; i++)
        status = sync_load_residuals(p->exchange.sync, &of, i,
                                     arenas ? arenas + (size_t)i * p->elems : NULL, &left);
    if (!status && p->words.rule.nhistory > 0)
        status = sync_load_history(p->exchange.sync, arenas ? arenas + (size_t)n * p->elems : NULL);
    free(p->state);
    p->state = NULL;
    return status;
}
