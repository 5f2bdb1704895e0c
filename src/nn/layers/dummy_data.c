/* DummyData: tops filled with constants and random numbers.
 *
 * Each sample is filled by itself, with draws keyed by its global index, so the samples are the
 * same at any number of ranks. Fillers whose values depend on the whole batch's shape fill the
 * batch at once. */
#include "layers/layers_internal.h"

#include "util/error.h"
#include "util/rng.h"
#include "util/units.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct dummy {
    struct engine *engine; /* borrowed */
    bool filled;           /* constants have been written */
    float values[];        /* values of all tops, one after the other, row-major */
};

/* Returns top t's index in a list of n items: none, one for all tops, or one each. */
static size_t item_of(size_t n, int t)
{
    return n == 1 ? 0 : (size_t)t;
}

static const Caffe__FillerParameter *filler_of(const struct layer *layer, int t)
{
    const Caffe__DummyDataParameter *p = layer->param->dummy_data_param;

    return p->n_data_filler ? p->data_filler[item_of(p->n_data_filler, t)] : NULL;
}

static bool is_constant(const Caffe__FillerParameter *filler)
{
    return !filler || !filler->type || strcmp(filler->type, "constant") == 0;
}

/* True if the filler's values for a sample do not depend on the batch's shape. */
static bool is_per_sample(const Caffe__FillerParameter *filler)
{
    return filler->variance_norm == CAFFE__FILLER_PARAMETER__VARIANCE_NORM__FAN_IN &&
           filler->sparse < 0;
}

static int shapes_check(const struct layer *layer, const Caffe__DummyDataParameter *p)
{
    size_t tops = (size_t)layer->ntops;
    const struct {
        const char *name;
        size_t n;
    } old[] = {{"num", p->n_num},
               {"channels", p->n_channels},
               {"height", p->n_height},
               {"width", p->n_width}};

    if (p->n_data_filler > 1 && p->n_data_filler != tops)
        return error_set("dummy_data_param has %zu data_filler for %s; expected none, one for "
                         "all or one each",
                         p->n_data_filler, units_count((long long)tops, "top").text);
    if (p->n_shape) {
        for (int i = 0; i < 4; i++)
            if (old[i].n)
                return error_set(
                    "dummy_data_param has both shape and %s; expected one of the forms",
                    old[i].name);
        if (p->n_shape > 1 && p->n_shape != tops)
            return error_set("dummy_data_param has %s for %s; expected one for all or "
                             "one each",
                             units_count((long long)p->n_shape, "shape").text,
                             units_count((long long)tops, "top").text);
        return 0;
    }
    for (int i = 0; i < 4; i++)
        if (old[i].n != 1 && old[i].n != tops)
            return error_set("dummy_data_param has %s of %s for %s; expected one for "
                             "all or one each (or shape)",
                             units_count((long long)old[i].n, "value").text, old[i].name,
                             units_count((long long)tops, "top").text);
    return 0;
}

static int set_shape(struct layer *layer, const Caffe__DummyDataParameter *p, int t)
{
    if (p->n_shape) {
        const Caffe__BlobShape *shape = p->shape[item_of(p->n_shape, t)];
        return layer_set_shape(layer, t, shape->n_dim, shape->dim);
    }
    return layer_set_shape(
        layer, t, 4,
        (const int64_t[]){p->num[item_of(p->n_num, t)], p->channels[item_of(p->n_channels, t)],
                          p->height[item_of(p->n_height, t)], p->width[item_of(p->n_width, t)]});
}

static int dummy_setup(struct layer *layer, const struct layer_env *env)
{
    const Caffe__DummyDataParameter *p = layer->param->dummy_data_param;

    if (!p)
        return error_set("dummy_data_param is missing; expected at least one shape");
    if (shapes_check(layer, p))
        return -1;
    for (int t = 0; t < layer->ntops; t++)
        if (set_shape(layer, p, t))
            return -1;
    return layer_replace_batch(layer, env);
}

/* Has a label top's values cut to whole numbers, as Caffe's losses do; nets for timing rely on it.
 * Fails if a constant label is not a class. */
static int dummy_make_labels(struct layer *layer, int top, size_t classes,
                             const struct layer_env *env)
{
    const Caffe__FillerParameter *filler = filler_of(layer, top);
    float value = filler && is_constant(filler) ? truncf(filler->value) : 0;

    if (classes && !(value >= 0 && value < (float)classes))
        return error_set("data_filler value: label %g of '%s' is outside 0..%zu (the scores have "
                         "%zu classes)",
                         (double)value, layer->tops[top]->name, classes - 1, classes);
    layer->whole_top = top + 1;
    return !filler || (is_constant(filler) && value == filler->value)
               ? 0
               : layer_notice(layer, env,
                              "'%s' is read as labels, so the filler's values are cut to whole "
                              "numbers, as in Caffe's losses",
                              layer->tops[top]->name);
}

/* Fails on a wrong filler at set-up rather than in the first pass. */
static int fillers_try(const struct layer *layer)
{
    const struct shape one = {1, {1}};
    float value;

    for (int t = 0; t < layer->ntops; t++) {
        const Caffe__FillerParameter *filler = filler_of(layer, t);

        if (!is_constant(filler) && strcmp(filler->type, "bilinear") != 0 &&
            filler_fill(filler, &one, 0, 0, &value))
            return -1;
    }
    return 0;
}

static int dummy_build(struct layer *layer, struct engine *engine)
{
    struct dummy *state;
    size_t bytes = sizeof *state;

    for (int t = 0; t < layer->ntops; t++)
        bytes += shape_elems(&layer->tops[t]->value.shape) * sizeof(float);
    layer->state = state = malloc(bytes);
    if (!state)
        return error_memory(bytes, "a DummyData layer");
    state->engine = engine;
    state->filled = false;
    return fillers_try(layer);
}

/* Returns the seed for one sample of this layer. */
static uint64_t seed_of(const struct layer *layer, const struct pass *pass, uint64_t sample)
{
    struct rng rng = rng_make(pass->seed, RNG_DUMMY, (uint32_t)layer->index, sample);

    return (uint64_t)rng_u32(&rng, 0) << 32 | rng_u32(&rng, 1);
}

static int top_fill(const struct layer *layer, const struct pass *pass, int t, float *out)
{
    const Caffe__FillerParameter *filler = filler_of(layer, t);
    struct shape shape = layer->tops[t]->value.shape;
    int64_t samples = shape.naxes > 0 ? shape.dim[0] : 1;
    size_t elems = shape_elems(&shape) / (size_t)samples;

    if (is_constant(filler) || !is_per_sample(filler))
        return filler_fill(filler, &shape, seed_of(layer, pass, pass->first_sample), t, out);
    if (shape.naxes > 0)
        shape.dim[0] = 1;
    for (int64_t n = 0; n < samples; n++)
        if (filler_fill(filler, &shape, seed_of(layer, pass, pass->first_sample + (uint64_t)n), t,
                        out + (size_t)n * elems))
            return -1;
    return 0;
}

static int dummy_forward(struct layer *layer, const struct pass *pass)
{
    struct dummy *state = layer->state;
    struct engine *engine = state->engine;
    float *values = state->values;

    for (int t = 0; t < layer->ntops; t++) {
        struct tensor *top = &layer->tops[t]->value;
        if ((!state->filled || !is_constant(filler_of(layer, t))) &&
            top_fill(layer, pass, t, values))
            return -1;
        for (size_t e = 0; layer->whole_top == t + 1 && e < shape_elems(&top->shape); e++)
            values[e] = truncf(values[e]);
        if (engine->i->write(engine->context, top, values))
            return -1;
        values += shape_elems(&top->shape);
    }
    state->filled = true;
    return 0;
}

const struct layer_i layer_dummy_data = {
    .type = "DummyData",
    .tops = {1, OP_ANY},
    .is_data = true,
    .setup_in = dummy_setup,
    .build = dummy_build,
    .forward = dummy_forward,
    .make_labels = dummy_make_labels,
};
