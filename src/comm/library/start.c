/* poseidon_start, from tensors to a sync: agreement, nodes, choice of schemes, plan, arenas. */
#include "library/library.h"

#include "exchange/lost.h"
#include "util/agree.h"
#include "util/agreement.h"
#include "util/alloc.h"
#include "util/file.h"
#include "util/strbuf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- agreement ---- */

static void describe_job(const struct poseidon *p, struct strbuf *out)
{
    static const char *const types[] = {[ELEMENT_FLOAT32] = "",
                                        [ELEMENT_FLOAT16] = " of float16",
                                        [ELEMENT_BFLOAT16] = " of bfloat16"};
    const struct rule *rule = &p->words.rule;
    char name[32];

    agreement_put(out, "options", "\"%s\"", p->words.given);
    agreement_put(out, "ranks", "%d", p->nranks);
    agreement_put(out, "rule",
                  "%s, momentum %g, %g, rms_decay %g, delta %g, weight_decay %g, "
                  "local_gw_ratio %g",
                  rule_kind_name(rule->kind), (double)rule->momentum, (double)rule->momentum2,
                  (double)rule->rms_decay, (double)rule->delta, (double)rule->weight_decay,
                  (double)p->words.trust);
    for (int i = 0; i < p->nmembers; i++) {
        const struct poseidon_tensor *t = &p->members[i].tensor;
        snprintf(name, sizeof name, "tensor %d", i);
        agreement_put(out, name, "'%s' of %zu elements%s, %lld rows, %lld outputs, %lld inputs%s%s",
                      t->name, t->elems, types[p->members[i].type], (long long)t->rows,
                      (long long)t->outputs, (long long)t->inputs, t->values ? ", with values" : "",
                      p->device.i->own_memory ? ", on a GPU" : "");
    }
}

static int compare_all(struct poseidon *p)
{
    int status = p->nmembers > 0 ? 0 : error_set("poseidon_start: no tensor was added");

    describe_job(p, &p->about);
    return agree_alike(p->comm, status, &p->about,
                       "all ranks add the same tensors in the same order");
}

static void warn(void *context, const char *text)
{
    (void)context;
    fprintf(stderr, "poseidon: %s\n", text);
}

/* ---- tensors as groups ---- */

static int make_groups(struct poseidon *p)
{
    enum { ALIGNED = 16 };
    size_t zeros = 0;

    p->work = (struct layer_times){.nlayers = p->nmembers, .ngroups = p->nmembers};
    if (OWN(&p->owner, p->groups, p->nmembers, "the tensors") ||
        OWN(&p->owner, p->work.forward, p->nmembers, "the tensors") ||
        OWN(&p->owner, p->work.backward, p->nmembers, "the tensors") ||
        OWN(&p->owner, p->work.layer, p->nmembers, "the tensors"))
        return -1;
    for (int i = 0; i < p->nmembers; i++) {
        struct member *m = &p->members[i];
        const struct poseidon_tensor *t = &m->tensor;
        size_t side = (size_t)(t->rows * (t->outputs > t->inputs ? t->outputs : t->inputs));

        m->begin = p->elems;
        m->param = (struct group_param){t->elems, 1, 1};
        p->groups[i] = (struct group){.name = t->name,
                                      .layer = i,
                                      .begin = m->begin,
                                      .elems = t->elems,
                                      .nparams = 1,
                                      .params = &m->param,
                                      .trains = true,
                                      .factorable = t->rows > 0,
                                      .m = t->outputs,
                                      .n = t->inputs,
                                      .k = t->rows,
                                      .outputs = t->outputs};
        p->work.layer[i] = i;
        p->work.forward[i] = t->forward_seconds;
        p->work.backward[i] = t->backward_seconds;
        p->elems += (t->elems + ALIGNED - 1) / ALIGNED * ALIGNED;
        zeros = side > zeros ? side : zeros;
    }
    if (device_host.open(0, &p->host.context))
        return -1;
    if (!p->device.i->own_memory)
        p->device = p->host;
    return OWN(&p->owner, p->zeros, zeros, "factors");
}

/* Prints the exchange's warnings, and drops its other messages. */
static void say(void *context, bool warning, const char *text)
{
    const struct poseidon *p = context;

    if (warning && p->rank == 0)
        warn(NULL, text);
}

/* Returns the layers' compute times. Each rank may have measured its own: rank 0's are used. */
static int find_work(void *context, struct cost_cluster *cluster, struct layer_times *out)
{
    const struct poseidon *p = context;

    (void)cluster;
    *out = p->work;
    return 0;
}

static int form_nodes(struct poseidon *p)
{
    struct exchange_member member = {.world = p->comm,
                                     .topology = &p->hosts,
                                     .device = &p->device,
                                     .context = p,
                                     .say = say,
                                     .find_work = find_work};
    char sharers[EXCHANGE_SHARERS];

    if (exchange_find_sharers(p->comm, &p->device, sharers))
        return -1;
    if (sharers[0])
        member.no_team = "ranks share a GPU, and NCCL needs one for each";
    return exchange_form_all(&p->exchange, &p->words.exchange, &member, p->plan_text, p->elems);
}

/* ---- the plan ---- */

/* Computes each bucket's cost, if the network was measured. */
static int price_plan(struct poseidon *p)
{
    if (!p->exchange.probed)
        return 0;
    if (OWN(&p->owner, p->costs, p->exchange.plan->nbuckets, "the costs"))
        return -1;
    return exchange_price(&p->exchange, p->costs);
}

/* Describes the plan for states, if auto chose: auto would not choose the same plan again. */
static int describe_plan(struct poseidon *p)
{
    struct strbuf text = {0};

    free(p->plan_text);
    strbuf_puts(&text, "");
    if (p->exchange.shape.asks)
        saved_plan_describe(p->exchange.plan, &text);
    p->plan_text = strbuf_take(&text);
    return p->plan_text ? 0 : -1;
}

static int make_plan(struct poseidon *p)
{
    const struct exchange_net net = {p->groups, p->nmembers, 1};

    if (exchange_plan_all(&p->exchange, &net))
        return -1;
    return error_agree(p->comm, error_status(price_plan(p) || describe_plan(p)));
}

/* ---- callbacks of sync ---- */

static void give_factors(void *context, int group, const float **bottom, const float **top_grad)
{
    const struct poseidon *p = context;

    (void)group;
    *bottom = p->right;
    *top_grad = p->left;
}

static void take_result(void *context, int group)
{
    library_give_result(context, group);
}

static int describe(void *context, int64_t iteration, float scale, float lr_mult, float decay_mult,
                    struct device_update *out)
{
    const struct poseidon *p = context;

    if (p->words.result == RESULT_VALUES)
        rule_describe(&p->words.rule, iteration, p->rates[iteration % 2], scale, lr_mult,
                      decay_mult, out);
    else
        *out = (struct device_update){.rule = RULE_MEAN,
                                      .scale = p->words.result == RESULT_SUM ? 1 : scale};
    return 0;
}

/* ---- callbacks of the wire, on its thread ---- */

static void give_up(void *context, const char *text)
{
    const struct exchange_end end = {.program = "poseidon", .what = "This process", .advice = ""};

    (void)context;
    exchange_lost(&end, text);
}

static void where(void *context, struct wire_place *out)
{
    struct poseidon *p = context;

    out->iteration = atomic_load(&p->iteration);
    out->place[0] = atomic_load(&p->missing);
}

static void put_place(void *context, const int64_t place[3], struct strbuf *text)
{
    const struct poseidon *p = context;

    strbuf_printf(text, " (tensor '%s' was neither posted nor skipped)",
                  p->members[place[0] > 0 ? place[0] : 0].tensor.name);
}

/* ---- the trace ---- */

static int open_trace(struct poseidon *p)
{
    const struct trace_options options = {.last = INT32_MAX};
    const char *path = p->words.trace;

    if (!path)
        return 0;
    if (error_agree(p->comm, (p->rank == 0 && file_probe(path)) || trace_create(&options, &p->trace)
                                 ? error_context("trace=%s", path)
                                 : 0) ||
        error_agree(p->comm, clock_compare(p->comm, p->trace, &p->clock)))
        return -1;
    trace_iteration(p->trace, p->iteration);
    p->began = trace_begin(p->trace);
    return 0;
}

int library_write_trace(struct poseidon *p)
{
    struct timeline_about about = {
        .net = "libposeidon", .plan = p->exchange.plan, .topology = &p->hosts, .before = p->clock};
    struct timeline_written written;

    if (timeline_write(p->comm, p->trace, &about, p->words.trace, &written))
        return -1;
    if (written.dropped > 0)
        warn(NULL, "the trace is full: its last iterations are missing");
    return 0;
}

/* ---- the whole start ---- */

static int open_sync(struct poseidon *p)
{
    const struct option_string *w = &p->words;
    bool rules = w->result == RESULT_VALUES;
    const struct sync_model model = {.elems = p->elems,
                                     .values = p->values,
                                     .grads = p->grads,
                                     .device_values = p->device_values,
                                     .device_grads = p->device_grads,
                                     .device = &p->device,
                                     .host_device = &p->host,
                                     .context = p,
                                     .factors = give_factors,
                                     .changed = take_result};
    const struct sync_update update = {
        .context = p, .nhistory = rules ? w->rule.nhistory : 0, .describe = describe};
    const struct sync_options options = {.lars = rules ? w->trust : 0,
                                         .decay = w->rule.weight_decay,
                                         .trace = p->trace,
                                         .iteration = atomic_load(&p->iteration),
                                         .watch = {.stall_seconds = WIRE_SILENCE_SECONDS,
                                                   .end = "in poseidon_destroy",
                                                   .even = "give all ranks as many batches",
                                                   .context = p,
                                                   .warn = warn,
                                                   .lost = give_up,
                                                   .where = where,
                                                   .put_place = put_place}};

    return exchange_open_all(&p->exchange, &model, &update, &options);
}

/* Finds the tensors that travel as factors, and allocates a GPU's copies. */
static int find_factors(struct poseidon *p)
{
    for (int i = 0; i < p->nmembers; i++) {
        const struct scheme *scheme =
            p->exchange.plan->buckets[p->exchange.plan->bucket_of[i]].scheme;
        struct member *m = &p->members[i];
        size_t floats = (size_t)(m->tensor.rows * (m->tensor.outputs + m->tensor.inputs));

        m->factors = scheme && scheme->factors && !sync_is_local(p->exchange.sync, i);
        if (m->factors && p->device.i->own_memory &&
            !(m->factors_kept =
                  device_own(&p->device, &p->arenas, floats * sizeof(float), "factors")))
            return -1;
    }
    return 0;
}

int library_prepare_all(struct poseidon *p)
{
    p->host.i = &device_host;
    if (compare_all(p) || topology_create(p->comm, &p->hosts) ||
        error_agree(p->comm, make_groups(p)) || form_nodes(p) ||
        error_agree(p->comm, library_place_arenas(p)) || make_plan(p) || open_trace(p) ||
        open_sync(p))
        return -1;
    /* the ranks' plans are equal: sync_create has compared them */
    agreement_put(&p->about, "the way of its tensors", "%016llx",
                  (unsigned long long)plan_digest(p->exchange.plan, (uint64_t)p->words.result));
    if (error_agree(p->comm, strbuf_status(&p->about)))
        return -1;
    if (error_agree(p->comm, p->rank == 0 ? library_move_values(p, DEVICE_FETCH) : 0) ||
        sync_share_values(p->exchange.sync) || library_load_state(p))
        return -1;
    return error_agree(p->comm,
                       error_status(library_move_values(p, DEVICE_STORE) || find_factors(p)));
}

void library_release(struct poseidon *p, bool in_flight)
{
    bool shared = node_shares_memory(p->exchange.node);

    if (in_flight) {
        sync_destroy(p->exchange.sync);
    } else {
        exchange_close(&p->exchange);
        exchange_leave(&p->exchange);
        library_free_arenas(p, shared);
    }
    trace_destroy(p->trace);
    device_host.close(p->host.context);
    topology_free(&p->hosts);
    owner_free(&p->owner);
}
