/* Fillers: the initial values of parameters.
 *
 * Element i is made from word i of the sequence (seed, RNG_FILLER, parameter), so a parameter's
 * values do not depend on other layers or the number of ranks. The generator makes four words a
 * call; the loops below therefore go in fours. */
#include "engine/normal.h"
#include "layers/layer.h"

#include "util/error.h"
#include "util/rng.h"
#include "util/units.h"

#include <math.h>
#include <string.h>

static double fan_in(const struct shape *shape)
{
    return (double)shape_count(shape, 1, shape->naxes);
}

static double fan_out(const struct shape *shape)
{
    double elems = (double)shape_elems(shape);

    return shape->naxes > 1 && shape->dim[1] > 0 ? elems / (double)shape->dim[1] : elems;
}

/* Returns n, the fan by which xavier and msra divide. */
static double fan(const Caffe__FillerParameter *filler, const struct shape *shape)
{
    switch (filler->variance_norm) {
    case CAFFE__FILLER_PARAMETER__VARIANCE_NORM__FAN_OUT:
        return fan_out(shape);
    case CAFFE__FILLER_PARAMETER__VARIANCE_NORM__AVERAGE:
        return (fan_in(shape) + fan_out(shape)) / 2;
    default:
        return fan_in(shape);
    }
}

static void fill_constant(size_t elems, float value, float *out)
{
    for (size_t i = 0; i < elems; i++)
        out[i] = value;
}

static void fill_uniform(const struct rng *rng, size_t elems, float low, float high, float *out)
{
    uint32_t words[4];

    for (size_t i = 0; i < elems; i++) {
        if (i % 4 == 0)
            rng_block(rng, (uint32_t)(i / 4), words);
        float value = low + (high - low) * ((float)(words[i % 4] >> 8) * 0x1p-24f);
        out[i] = value < high ? value : low; /* the product may round up to `high` */
    }
}

/* Fills with normal numbers; words 2j and 2j+1 give elements 2j and 2j+1. */
static void fill_gaussian(const struct rng *rng, size_t elems, float mean, float std, float *out)
{
    uint32_t words[1024];
    const size_t most = sizeof words / sizeof *words;

    for (size_t at = 0; at < elems; at += most) {
        size_t n = elems - at < most ? elems - at : most;
        for (size_t i = 0; i < n; i += 4)
            rng_block(rng, (uint32_t)((at + i) / 4), words + i);
        normal_fill(words, mean, std, out + at, n);
    }
}

/* Keeps each weight with probability `keep`, drawn from the words behind those that made the
 * values. */
static void drop_weights(const struct rng *rng, size_t elems, double keep, float *out)
{
    uint64_t behind = (elems + 3) / 4 * 4;

    for (size_t i = 0; i < elems; i++)
        if (!((double)rng_uniform(rng, behind + i) < keep))
            out[i] = 0;
}

static void fill_unitball(const struct rng *rng, const struct shape *shape, float *out)
{
    size_t elems = shape_elems(shape);
    size_t columns = shape_count(shape, 1, shape->naxes);

    fill_uniform(rng, elems, 0, 1, out);
    for (size_t row = 0; row + columns <= elems && columns > 0; row += columns) {
        double sum = 0;
        for (size_t i = 0; i < columns; i++)
            sum += out[row + i];
        for (size_t i = 0; i < columns && sum > 0; i++)
            out[row + i] = (float)(out[row + i] / sum);
    }
}

/* Fills with weights by which a deconvolution interpolates linearly. */
static int fill_bilinear(const struct shape *shape, float *out)
{
    if (shape->naxes != 4 || shape->dim[2] != shape->dim[3])
        return error_set("filler 'bilinear' needs a 4-axis parameter with a square kernel, found "
                         "%s, kernel %d x %d",
                         units_count(shape->naxes, "axis").text, (int)shape_dim(shape, 2),
                         (int)shape_dim(shape, 3));
    size_t elems = shape_elems(shape);
    size_t k = (size_t)shape->dim[3];
    double f = ceil((double)k / 2);
    double c = (double)(k - 1) / (2 * f);

    for (size_t i = 0; i < elems; i++) {
        double x = (double)(i % k), y = (double)(i / k % k);
        out[i] = (float)((1 - fabs(x / f - c)) * (1 - fabs(y / f - c)));
    }
    return 0;
}

static int fill_sparse_gaussian(const Caffe__FillerParameter *filler, const struct shape *shape,
                                const struct rng *rng, float *out)
{
    size_t elems = shape_elems(shape);

    if (filler->std < 0)
        return error_set("filler 'gaussian' has std %g; expected at least 0", (double)filler->std);
    if (filler->sparse < -1)
        return error_set("filler 'gaussian' has sparse %d; expected -1 (dense) or the number of "
                         "non-zero inputs per output",
                         (int)filler->sparse);
    fill_gaussian(rng, elems, filler->mean, filler->std, out);
    if (filler->sparse >= 0 && elems > 0)
        drop_weights(rng, elems, (double)filler->sparse / (double)shape_dim(shape, 0), out);
    return 0;
}

int filler_check(const Caffe__FillerParameter *filler)
{
    static const char *const names[] = {"bilinear",          "constant", "gaussian", "msra",
                                        "positive_unitball", "uniform",  "xavier"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(filler->type, names[i]) == 0)
            return 0;
    return error_set("unknown filler name: %s (known fillers: bilinear, constant, gaussian, msra, "
                     "positive_unitball, uniform, xavier)",
                     filler->type);
}

int filler_fill(const Caffe__FillerParameter *filler, const struct shape *shape, uint64_t seed,
                int param_index, float *out)
{
    struct rng rng = rng_make(seed, RNG_FILLER, (uint32_t)param_index, 0);
    const char *type = filler && filler->type ? filler->type : "constant";
    size_t elems = shape_elems(shape);

    if (!filler || strcmp(type, "constant") == 0) {
        fill_constant(elems, filler ? filler->value : 0, out);
    } else if (strcmp(type, "uniform") == 0) {
        if (filler->min > filler->max)
            return error_set("filler 'uniform' has min %g above max %g", (double)filler->min,
                             (double)filler->max);
        fill_uniform(&rng, elems, filler->min, filler->max, out);
    } else if (strcmp(type, "gaussian") == 0) {
        return fill_sparse_gaussian(filler, shape, &rng, out);
    } else if (strcmp(type, "positive_unitball") == 0) {
        fill_unitball(&rng, shape, out);
    } else if (strcmp(type, "xavier") == 0) {
        float limit = (float)sqrt(3 / fan(filler, shape));
        fill_uniform(&rng, elems, -limit, limit, out);
    } else if (strcmp(type, "msra") == 0) {
        fill_gaussian(&rng, elems, 0, (float)sqrt(2 / fan(filler, shape)), out);
    } else if (strcmp(type, "bilinear") == 0) {
        return fill_bilinear(shape, out);
    } else {
        return filler_check(filler);
    }
    return 0;
}
