/* Winograd's algorithm in place of the direct one, pass by pass, for images of height and width.
 *
 * oneDNN 2 has it for 3 x 3 windows of stride 1 on processors with AVX-512: a quarter of the
 * products for transforms of weights and activations. What that is worth depends on the shape, the
 * threads and the memory, so both are run, once for a shape, on memory like the layer's, and the
 * choice is kept (engine/choices.h). Small convolutions are not worth the trouble, and stay direct:
 * the same bits then come out whatever the clock said.
 *
 * It knows no groups: each group is then a convolution of its own (conv_part.c). Its memory grows
 * with the images: it is run for some of them at a time where that is much, which costs little or
 * no time (tests/bench/RESULTS.md).
 *
 * Only activations in the formats of the direct algorithm are looked at, so no reorder is added. */
#include "engine/cpu/conv.h"

#include "engine/cpu/fastest.h"

static const size_t default_workspace = (size_t)1 << 30;
/* More than that of one primitive is worth running it for fewer images. */
static const size_t much_workspace = (size_t)128 << 20;

enum { MOST_ARGS = 9 };
/* Gradients of weights have to be added over slices, so they have few. */
static const int most_slices[CONV_PASSES] = {8, 8, 2};

/* A pass by Winograd: the primitive and how often it runs. */
struct offer {
    dnnl_primitive_desc_t desc; /* NULL: there is none */
    int parts, slices;          /* one of them is 1 */
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

/* All that a convolution may be given, by the query that tells its form. */
static const struct {
    int arg;
    dnnl_query_t query;
    int index;
    bool activation;
} conv_args[MOST_ARGS] = {
    {DNNL_ARG_SRC, dnnl_query_src_md, 0, true},
    {DNNL_ARG_WEIGHTS, dnnl_query_weights_md, 0, false},
    {DNNL_ARG_BIAS, dnnl_query_weights_md, 1, false},
    {DNNL_ARG_DST, dnnl_query_dst_md, 0, true},
    {DNNL_ARG_DIFF_SRC, dnnl_query_diff_src_md, 0, true},
    {DNNL_ARG_DIFF_WEIGHTS, dnnl_query_diff_weights_md, 0, false},
    {DNNL_ARG_DIFF_BIAS, dnnl_query_diff_weights_md, 1, false},
    {DNNL_ARG_DIFF_DST, dnnl_query_diff_dst_md, 0, true},
    {DNNL_ARG_SCRATCHPAD, dnnl_query_scratchpad_md, 0, false},
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

/* *out: whether the offer is enough faster than direct. *sure: whether nothing disturbed that. */
static int measure(struct cpu_engine *engine, const_dnnl_primitive_desc_t direct,
                   const struct offer *offer, bool *out, bool *sure)
{
    size_t bytes[MOST_ARGS] = {0};
    void *memory[MOST_ARGS] = {NULL};
    struct trial trials[2] = {
        {.engine = engine, .parts = 1, .slices = 1, .memory = memory},
        {.engine = engine, .parts = offer->parts, .slices = offer->slices, .memory = memory}};
    const const_dnnl_primitive_desc_t descs[2] = {direct, offer->desc};
    const struct fastest_way ways[2] = {{trial_run, &trials[0]}, {trial_run, &trials[1]}};
    int which = 0, status = 0;

    for (int t = 0; t < 2 && !status; t++)
        status = trial_create(descs[t], &trials[t], bytes);
    for (int i = 0; i < MOST_ARGS && !status; i++)
        status = cpu_alloc(bytes[i], "measuring a convolution", &memory[i]);
    if (!status)
        status = fastest_find(ways, 2, NULL, &which, sure);
    *out = which == 1;
    for (int t = 0; t < 2; t++)
        trial_destroy(&trials[t]);
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
                "%s%s,%s,n%lld,c%lld,%lldx%lld,o%lld,%lldx%lld,g%d,f%dx%d,p%dx%d,b%d", names[pass],
                op->args.train ? "" : "_inference", format, (long long)x->dim[0],
                (long long)x->dim[1], (long long)x->dim[2], (long long)x->dim[3],
                (long long)y->dim[1], (long long)y->dim[2], (long long)y->dim[3], a->group,
                a->kernel[0], a->kernel[1], a->pad[0], a->pad[1], a->bias);
}

static int pays(const struct cpu_op *op, struct conv_descs *d, enum conv_pass pass,
                const struct offer *offer, bool *out)
{
    char key[CHOICES_KEY_BYTES];
    bool sure = false;
    int known;

    *out = false;
    if (pass_flops(op) < FASTEST_LEAST_FLOPS)
        return 0;
    choice_key(op, pass, d->src_format ? d->src_format->name : "nchw", key);
    known = choices_find(op->engine->choices, key);
    *out = known > 0;
    if (known >= 0)
        return 0;
    if (measure(op->engine, *pass_desc(d, pass), offer, out, &sure))
        return -1;
    return choices_note(op->engine->choices, key, *out, sure);
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

/* offer: what oneDNN has for the pass, all of it or one of several parts. Taken over. */
static int choose_pass(const struct cpu_op *op, struct conv_descs *d, enum conv_pass pass,
                       struct offer offer)
{
    dnnl_primitive_desc_t *desc = pass_desc(d, pass);
    size_t most = op->engine->workspace ? op->engine->workspace : default_workspace;
    bool take = op->engine->convolution == CONVOLUTION_WINOGRAD;
    int status = 0;

    if (!offer.desc)
        return 0;
    if (offer.parts == 1)
        offer_slices(op, d, pass, most, &offer);
    if (scratchpad_bytes(offer.desc) > most)
        take = false;
    else if (!take)
        status = pays(op, d, pass, &offer, &take);
    if (take) {
        dnnl_primitive_desc_t direct = *desc;
        *desc = offer.desc;
        offer.desc = direct;
        d->winograd[pass] = true;
        d->parts[pass] = offer.parts;
        d->slices[pass] = offer.slices;
    }
    dnnl_primitive_desc_destroy(offer.desc);
    return status;
}

/* offered: what `one`, the op or one group of it, has in each pass. */
static int choose_passes(const struct cpu_op *op, struct conv_descs *d, const struct cpu_op *one,
                         struct conv_descs *offered)
{
    for (int i = CONV_PASSES - 1; i >= 0; i--) { /* forward last: it is the others' hint */
        enum conv_pass pass = (enum conv_pass)i;

        if (*pass_desc(offered, pass) &&
            choose_pass(
                op, d, pass,
                (struct offer){winograd_desc(one, offered, pass), op->args.u.conv.group, 1}))
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

    if (op->engine->convolution == CONVOLUTION_DIRECT ||
        op->args.bottoms[0]->value.shape.naxes != 4 || a->kernel[0] != 3 || a->kernel[1] != 3)
        return 0;
    return a->group > 1 ? choose_by_parts(op, d) : choose_passes(op, d, op, d);
}
