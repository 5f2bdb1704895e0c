/* Winograd's algorithm in place of the direct one, pass by pass, for images of height and width.
 *
 * Our own (winograd.h) is for windows of 3x3 and 5x5, stride 1 and activations in blocks of
 * channels. oneDNN 2 has one for 3x3 on processors with AVX-512, where it is now the faster one and
 * now the slower one. What each is worth there depends on the shape, the threads and the memory, so
 * all are run, once for a shape, on memory like the layer's, and the choice is kept
 * (engine/choices.h). In blocks of 8, which is AVX2, our own was faster wherever it was tried
 * (tests/bench/RESULTS.md), and the shape alone decides. Small convolutions are not worth the
 * trouble, and stay direct: the same bits then come out whatever the clock said.
 *
 * oneDNN's knows no groups: each group is then a convolution of its own (conv_part.c). Its memory
 * grows with the images: it is run for some of them at a time where that is much, which costs
 * little or no time (tests/bench/RESULTS.md).
 *
 * Only activations in the formats of the direct algorithm are looked at, so no reorder is added
 * (conv_descs.c tries blocks where that is slow code): channels that do not fill blocks (20, in
 * blocks of 8) stay direct. */
#include "engine/cpu/conv.h"

#include "engine/cpu/fastest.h"

#include <limits.h>

static const size_t default_workspace = (size_t)1 << 30;
/* More than that of one primitive is worth running it for fewer images. */
static const size_t much_workspace = (size_t)128 << 20;

/* By rule our own needs so many channels of a group on both sides; its products are too thin else.
 */
enum { LEAST_CHANNELS = 16 };

/* All that a convolution may be given. */
enum {
    ARG_SRC,
    ARG_WEIGHTS,
    ARG_BIAS,
    ARG_DST,
    ARG_DIFF_SRC,
    ARG_DIFF_WEIGHTS,
    ARG_DIFF_BIAS,
    ARG_DIFF_DST,
    ARG_SCRATCHPAD,
    MOST_ARGS
};
/* Gradients of weights have to be added over slices, so they have few. */
static const int most_slices[CONV_PASSES] = {8, 8, 2};

/* A pass by Winograd: oneDNN's primitive and how often it runs; our own. */
struct offer {
    dnnl_primitive_desc_t desc; /* NULL: there is none */
    int parts, slices;          /* one of them is 1 */
    struct winograd own;        /* its code NULL: there is none */
};

static dnnl_primitive_desc_t *pass_desc(struct conv_descs *d, enum conv_pass pass)
{
    return pass == CONV_FORWARD         ? &d->forward
           : pass == CONV_BACKWARD_DATA ? &d->backward_data
                                        : &d->backward_weights;
}

static double pass_flops(const struct cpu_op *op)
{
    const struct conv_args *a = &op->args.u.conv;
    const struct shape *top = &op->args.tops[0]->value.shape;

    return 2.0 * (double)shape_elems(top) *
           (double)(op->args.bottoms[0]->value.shape.dim[1] / a->group) * a->kernel[0] *
           a->kernel[1];
}

/* The pass by Winograd, in the formats that it has; NULL where oneDNN offers none. */
static dnnl_primitive_desc_t winograd_desc(const struct cpu_op *op, const struct conv_descs *d,
                                           enum conv_pass pass)
{
    const dnnl_alg_kind_t algorithm = dnnl_convolution_winograd;
    dnnl_engine_t engine = op->engine->engine;
    dnnl_primitive_attr_t attr = op->engine->attr;
    dnnl_prop_kind_t kind = op->args.train ? dnnl_forward_training : dnnl_forward_inference;
    const_dnnl_primitive_desc_t old = *pass_desc((struct conv_descs *)(uintptr_t)d, pass);
    dnnl_primitive_desc_t found = NULL;
    dnnl_status_t status;

    if (pass == CONV_FORWARD)
        status = compat_conv_forward(&found, engine, kind, algorithm,
                                     conv_desc_md(old, dnnl_query_src_md), d->weights, d->bias,
                                     conv_desc_md(old, dnnl_query_dst_md), &d->window, attr);
    else if (pass == CONV_BACKWARD_DATA)
        status = compat_conv_backward_data(
            &found, engine, algorithm, conv_desc_md(old, dnnl_query_diff_src_md), d->weights,
            conv_desc_md(old, dnnl_query_diff_dst_md), &d->window, d->forward, attr);
    else
        status = compat_conv_backward_weights(
            &found, engine, algorithm, conv_desc_md(old, dnnl_query_src_md), d->weights, d->bias,
            conv_desc_md(old, dnnl_query_diff_dst_md), &d->window, d->forward, attr);
    return status == dnnl_success ? found : NULL;
}

static size_t scratchpad_bytes(const_dnnl_primitive_desc_t desc)
{
    const_md_t md = conv_desc_md(desc, dnnl_query_scratchpad_md);

    return md ? dnnl_memory_desc_get_size(md) : 0;
}

/* ---- measuring ---- */

/* How a primitive is given them, and the query that tells their form. */
static const struct {
    int arg;
    dnnl_query_t query;
    int index;
    bool activation;
} conv_args[MOST_ARGS] = {
    [ARG_SRC] = {DNNL_ARG_SRC, dnnl_query_src_md, 0, true},
    [ARG_WEIGHTS] = {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0, false},
    [ARG_BIAS] = {DNNL_ARG_BIAS, dnnl_query_weights_md, 1, false},
    [ARG_DST] = {DNNL_ARG_DST, dnnl_query_dst_md, 0, true},
    [ARG_DIFF_SRC] = {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0, true},
    [ARG_DIFF_WEIGHTS] = {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, 0, false},
    [ARG_DIFF_BIAS] = {DNNL_ARG_DIFF_BIAS, dnnl_query_diff_weights_md, 1, false},
    [ARG_DIFF_DST] = {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0, true},
    [ARG_SCRATCHPAD] = {DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md, 0, false},
};

struct trial {
    struct cpu_engine *engine;
    struct cpu_primitive primitive;
    int which[CPU_ARGS]; /* per argument: its place in conv_args */
    int parts, slices;   /* runs of the primitive */
    size_t bytes[MOST_ARGS];
    void *part[MOST_ARGS]; /* activations of one part, where there are several; else NULL */
    void *const *memory;   /* of MOST_ARGS arguments, borrowed */
};

/* The form of an argument, or NULL where this pass has none of that kind. */
static const_md_t trial_md(const_dnnl_primitive_desc_t desc, int i)
{
    const_md_t md = dnnl_primitive_desc_query_md(desc, conv_args[i].query, conv_args[i].index);

    return md && dnnl_memory_desc_get_size(md) > 0 ? md : NULL;
}

/* `bytes`: what each argument takes, the larger of those there and this one's. */
static int trial_create(const_dnnl_primitive_desc_t desc, struct trial *out,
                        size_t bytes[MOST_ARGS])
{
    if (cpu_check(dnnl_primitive_create(&out->primitive.primitive, desc)))
        return -1;
    for (int i = 0; i < MOST_ARGS; i++) {
        const_md_t md = trial_md(desc, i);
        size_t size = md ? dnnl_memory_desc_get_size(md) : 0;

        if (!md)
            continue;
        if (cpu_primitive_arg(out->engine, &out->primitive, conv_args[i].arg, md))
            return -1;
        out->which[out->primitive.nargs - 1] = i;
        out->bytes[i] = size;
        bytes[i] = size > bytes[i] ? size : bytes[i];
        if (out->parts > 1 && conv_args[i].activation &&
            cpu_alloc(size, "measuring a convolution", &out->part[i]))
            return -1;
    }
    return 0;
}

static void trial_destroy(struct trial *trial)
{
    cpu_primitive_destroy(&trial->primitive);
    for (int i = 0; i < MOST_ARGS; i++)
        cpu_free(trial->part[i]);
}

/* The product of a slice or a part, with copies of activations, as in conv_part.c (whatever their
 * direction). */
static int trial_run_one(struct trial *trial, int run)
{
    const void *data[CPU_ARGS] = {NULL};

    for (int i = 0; i < trial->primitive.nargs; i++) {
        int which = trial->which[i];
        size_t floats = trial->bytes[which] / sizeof(float);
        const float *from = trial->memory[which];

        if (conv_args[which].activation)
            from += (size_t)run * floats;
        data[i] = trial->part[which] ? trial->part[which] : from;
        if (trial->part[which])
            cpu_copy(trial->part[which], from, floats);
    }
    return cpu_primitive_run(trial->engine, &trial->primitive, data);
}

static int trial_run(void *context)
{
    struct trial *trial = context;

    for (int i = 0; i < trial->parts * trial->slices; i++)
        if (trial_run_one(trial, i))
            return -1;
    return 0;
}

/* Our own, on the same memory: weights are plain there, and no larger. */
struct own_trial {
    const struct winograd *own;
    enum conv_pass pass;
    void *const *memory;
};

static int own_trial_run(void *context)
{
    const struct own_trial *trial = context;
    void *const *memory = trial->memory;
    const struct winograd_data data[CONV_PASSES] = {
        [CONV_FORWARD] = {.x = memory[ARG_SRC],
                          .weights = memory[ARG_WEIGHTS],
                          .bias = memory[ARG_BIAS],
                          .y = memory[ARG_DST],
                          .scratch = memory[ARG_SCRATCHPAD]},
        [CONV_BACKWARD_DATA] = {.x = memory[ARG_DIFF_DST],
                                .weights = memory[ARG_WEIGHTS],
                                .y = memory[ARG_DIFF_SRC],
                                .scratch = memory[ARG_SCRATCHPAD]},
        [CONV_BACKWARD_WEIGHTS] = {.x = memory[ARG_SRC],
                                   .dy = memory[ARG_DIFF_DST],
                                   .dweights = memory[ARG_DIFF_WEIGHTS],
                                   .dbias = memory[ARG_DIFF_BIAS],
                                   .scratch = memory[ARG_SCRATCHPAD]}};

    winograd_run(trial->own, &data[trial->pass]);
    return 0;
}

static bool has_way(const struct offer *offer, enum conv_way way)
{
    return way == CONV_DIRECT || (way == CONV_WINOGRAD && offer->desc) ||
           (way == CONV_OWN && offer->own.code);
}

/* *out: the fastest way. *sure: whether nothing disturbed that. */
static int measure(struct cpu_engine *engine, const_dnnl_primitive_desc_t direct,
                   enum conv_pass pass, const struct offer *offer, enum conv_way *out, bool *sure)
{
    size_t bytes[MOST_ARGS] = {0};
    void *memory[MOST_ARGS] = {NULL};
    struct trial trials[] = {
        [CONV_DIRECT] = {.engine = engine, .parts = 1, .slices = 1, .memory = memory},
        [CONV_WINOGRAD] = {
            .engine = engine, .parts = offer->parts, .slices = offer->slices, .memory = memory}};
    struct own_trial own = {&offer->own, pass, memory};
    const const_dnnl_primitive_desc_t descs[] = {direct, offer->desc};
    struct fastest_way ways[CONV_WAYS];
    enum conv_way list[CONV_WAYS];
    int n = 0, which = 0, status = 0;

    for (enum conv_way way = CONV_DIRECT; way < CONV_WAYS && !status; way++) {
        if (!has_way(offer, way))
            continue;
        if (way == CONV_OWN)
            ways[n] = (struct fastest_way){own_trial_run, &own};
        else
            ways[n] = (struct fastest_way){trial_run, &trials[way]};
        list[n++] = way;
        if (way != CONV_OWN)
            status = trial_create(descs[way], &trials[way], bytes);
        else if (winograd_bytes(&offer->own, false) > bytes[ARG_SCRATCHPAD])
            bytes[ARG_SCRATCHPAD] = winograd_bytes(&offer->own, false);
    }
    for (int i = 0; i < MOST_ARGS && !status; i++)
        if (bytes[i] > 0)
            status = cpu_alloc(bytes[i], "measuring a convolution", &memory[i]);
    if (!status)
        status = fastest_find(ways, n, NULL, &which, sure);
    *out = list[which];
    trial_destroy(&trials[CONV_DIRECT]);
    trial_destroy(&trials[CONV_WINOGRAD]);
    for (int i = 0; i < MOST_ARGS; i++)
        cpu_free(memory[i]);
    return status;
}

/* ---- choosing ---- */

static void choice_key(const struct cpu_op *op, enum conv_pass pass, const char *format,
                       char key[CHOICES_KEY_BYTES])
{
    static const char *const names[] = {"forward", "backward_data", "backward_weights"};
    const struct conv_args *a = &op->args.u.conv;
    const struct shape *x = &op->args.bottoms[0]->value.shape, *y = &op->args.tops[0]->value.shape;

    fastest_key(op->engine, key,
                "%s%s,v2,%s,n%lld,c%lld,%lldx%lld,o%lld,%lldx%lld,g%d,f%dx%d,p%dx%d,b%d",
                names[pass], op->args.train ? "" : "_inference", format, (long long)x->dim[0],
                (long long)x->dim[1], (long long)x->dim[2], (long long)x->dim[3],
                (long long)y->dim[1], (long long)y->dim[2], (long long)y->dim[3], a->group,
                a->kernel[0], a->kernel[1], a->pad[0], a->pad[1], a->bias);
}

/* Whether the shape alone decides between direct and our own. */
static bool goes_by_rule(const struct cpu_op *op, const struct conv_descs *d,
                         const struct offer *offer)
{
    return op->engine->repeatable || d->for_own ||
           (!offer->desc && offer->own.code && offer->own.code->lanes == 8);
}

static enum conv_way way_by_rule(const struct offer *offer)
{
    const struct winograd_shape *s = &offer->own.shape;
    bool wide = s->in >= LEAST_CHANNELS && s->out >= LEAST_CHANNELS;

    return offer->own.code && wide ? CONV_OWN : CONV_DIRECT;
}

/* Of ways that are there, direct's too: the fastest. */
static int choose_way(const struct cpu_op *op, struct conv_descs *d, enum conv_pass pass,
                      const struct offer *offer, enum conv_way *out)
{
    char key[CHOICES_KEY_BYTES];
    bool sure = false;
    int known;

    *out = CONV_DIRECT;
    if (pass_flops(op) < FASTEST_LEAST_FLOPS)
        return 0;
    if (goes_by_rule(op, d, offer)) {
        *out = way_by_rule(offer);
        return 0;
    }
    choice_key(op, pass, d->src_format ? d->src_format->name : "nchw", key);
    known = choices_find(op->engine->choices, key);
    if (known >= 0) {
        if (known < CONV_WAYS && has_way(offer, (enum conv_way)known))
            *out = (enum conv_way)known;
        return 0;
    }
    if (measure(op->engine, *pass_desc(d, pass), pass, offer, out, &sure))
        return -1;
    return choices_note(op->engine->choices, key, (int)*out, sure);
}

/* Where weights take most of it, fewer images take hardly less, and weights are transformed more
 * often. */
static bool saves_much(const_dnnl_primitive_desc_t whole, const_dnnl_primitive_desc_t slice)
{
    return scratchpad_bytes(slice) < scratchpad_bytes(whole) / 5 * 4;
}

/* Takes fewer images at a time while that saves memory of which there is much. */
static void offer_slices(const struct cpu_op *op, const struct conv_descs *d, enum conv_pass pass,
                         size_t most, struct offer *offer)
{
    size_t enough = most < much_workspace ? most : much_workspace;

    for (int slices = 2; slices <= most_slices[pass] && scratchpad_bytes(offer->desc) > enough;
         slices *= 2) {
        struct conv_part_op part;
        struct conv_descs one;
        dnnl_primitive_desc_t found = NULL;

        conv_slice_descs(op, d, slices, &part, &one);
        if (*pass_desc(&one, pass))
            found = winograd_desc(&part.op, &one, pass);
        conv_descs_destroy(&one);
        if (!found)
            return;
        if (scratchpad_bytes(offer->desc) <= most && !saves_much(offer->desc, found)) {
            dnnl_primitive_desc_destroy(found);
            return;
        }
        dnnl_primitive_desc_destroy(offer->desc);
        offer->desc = found;
        offer->slices = slices;
    }
}

static bool fits_int(const struct shape *shape)
{
    for (int i = 0; i < shape->naxes; i++)
        if (shape->dim[i] > INT_MAX)
            return false;
    return true;
}

/* The pass by our own code; its code NULL where that cannot. */
static struct winograd own_plan(const struct cpu_op *op, const struct conv_descs *d,
                                enum conv_pass pass, size_t most)
{
    const struct cpu_format *const formats[CONV_PASSES][2] = {
        {d->src_format, d->dst_format},
        {d->data_src_format, d->data_dst_format},
        {d->weights_src_format, d->weights_dst_format}};
    const struct cpu_format *format = formats[pass][0];
    const struct conv_args *a = &op->args.u.conv;
    const struct shape *x = &op->args.bottoms[0]->value.shape, *y = &op->args.tops[0]->value.shape;
    bool data = pass == CONV_BACKWARD_DATA;
    const struct shape *from = data ? y : x, *to = data ? x : y;
    struct winograd own;

    if (!format || format != formats[pass][1] || a->kernel[0] != a->kernel[1] ||
        a->stride[0] != 1 || a->stride[1] != 1 || a->dilation[0] != 1 || a->dilation[1] != 1 ||
        !fits_int(x) || !fits_int(y))
        return (struct winograd){.code = NULL};
    const struct winograd_shape shape = {.images = (int)x->dim[0],
                                         .groups = a->group,
                                         .in = (int)from->dim[1] / a->group,
                                         .out = (int)to->dim[1] / a->group,
                                         .height = (int)from->dim[2],
                                         .width = (int)from->dim[3],
                                         .window = a->kernel[0],
                                         .pad = {data ? a->kernel[0] - 1 - a->pad[0] : a->pad[0],
                                                 data ? a->kernel[1] - 1 - a->pad[1] : a->pad[1]},
                                         .turned = data,
                                         .weights = pass == CONV_BACKWARD_WEIGHTS};
    return winograd_plan(&shape, format->block, most, &own) ? own : (struct winograd){.code = NULL};
}

/* What is asked for by name is taken where it is there. */
static int take_way(const struct cpu_op *op, struct conv_descs *d, enum conv_pass pass,
                    const struct offer *offer, enum conv_way *out)
{
    const enum conv_way own = offer->own.code ? CONV_OWN : CONV_DIRECT;

    switch (op->engine->convolution) {
    case CONVOLUTION_WINOGRAD:
        *out = offer->desc ? CONV_WINOGRAD : own;
        return 0;
    case CONVOLUTION_OWN:
        *out = own;
        return 0;
    default:
        return choose_way(op, d, pass, offer, out);
    }
}

/* offer: what oneDNN has for the pass, all of it or one of several parts. Taken over. */
static int choose_pass(const struct cpu_op *op, struct conv_descs *d, enum conv_pass pass,
                       struct offer offer)
{
    dnnl_primitive_desc_t *desc = pass_desc(d, pass);
    size_t most = op->engine->workspace ? op->engine->workspace : default_workspace;
    int status = 0;

    offer.own = own_plan(op, d, pass, most);
    if (offer.desc && offer.parts == 1)
        offer_slices(op, d, pass, most, &offer);
    if (offer.desc && scratchpad_bytes(offer.desc) > most) {
        dnnl_primitive_desc_destroy(offer.desc);
        offer.desc = NULL;
    }
    if (offer.desc || offer.own.code)
        status = take_way(op, d, pass, &offer, &d->way[pass]);
    if (d->way[pass] == CONV_OWN)
        d->own[pass] = offer.own;
    if (d->way[pass] == CONV_WINOGRAD) {
        dnnl_primitive_desc_t direct = *desc;
        *desc = offer.desc;
        offer.desc = direct;
        d->parts[pass] = offer.parts;
        d->slices[pass] = offer.slices;
    }
    if (offer.desc)
        dnnl_primitive_desc_destroy(offer.desc);
    return status;
}

/* offered: what `one`, the op or one group of it, has in each pass. */
static int choose_passes(const struct cpu_op *op, struct conv_descs *d, const struct cpu_op *one,
                         struct conv_descs *offered)
{
    for (int i = CONV_PASSES - 1; i >= 0; i--) { /* forward last: it is the others' hint */
        enum conv_pass pass = (enum conv_pass)i;
        struct offer offer = {.parts = op->args.u.conv.group, .slices = 1};

        if (*pass_desc(offered, pass))
            offer.desc = winograd_desc(one, offered, pass);
        if (*pass_desc(d, pass) && choose_pass(op, d, pass, offer))
            return -1;
    }
    return 0;
}

/* oneDNN's Winograd knows no groups: each is a convolution of its own, which has to pay the copies
 * too. */
static int choose_by_parts(const struct cpu_op *op, struct conv_descs *d)
{
    struct conv_part_op part;
    struct conv_descs one;
    int status;

    conv_part_descs(op, d, &part, &one);
    status = choose_passes(op, d, &part.op, &one);
    if (d->parts[0] > 1 || d->parts[1] > 1 || d->parts[2] > 1) {
        d->part_weights = one.plain_weights;
        one.plain_weights = NULL;
    }
    conv_descs_destroy(&one);
    return status;
}

int conv_winograd_choose(const struct cpu_op *op, struct conv_descs *d)
{
    const struct conv_args *a = &op->args.u.conv;
    struct conv_descs none = {0};

    if (op->engine->convolution == CONVOLUTION_DIRECT ||
        op->args.bottoms[0]->value.shape.naxes != 4)
        return 0;
    if (a->kernel[0] != 3 || a->kernel[1] != 3)
        return choose_passes(op, d, op, &none);
    return a->group > 1 ? choose_by_parts(op, d) : choose_passes(op, d, op, d);
}
