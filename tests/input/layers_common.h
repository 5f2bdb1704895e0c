/* A net of layers that bring samples, on the CPU engine, and a folder of the test's own. */
#ifndef POSEIDON_TESTS_INPUT_LAYERS_COMMON_H
#define POSEIDON_TESTS_INPUT_LAYERS_COMMON_H

#include "tests/input/test_input_common.h"
#include "tests/net/test_net_common.h"
#include "tests/suite.h"

static struct engine engine;
static struct made made;
static char folder[256];

static inline void open_all(void)
{
    const struct engine_options o = {.threads = 1};
    const char *base = getenv("TMPDIR");

    expect_ok(engine_open("cpu", &o, &engine));
    snprintf(folder, sizeof folder, "%s/poseidon-layers-XXXXXX", base ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static inline void close_all(void)
{
    char command[300];

    unmake_net(&made);
    engine_close(&engine);
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
}

/* A net of the printf-style text in that phase, as rank of nranks with that batch (0: its own). */
static inline int make(const char *text, bool train, int rank, int nranks, int batch)
{
    static char base[1100];
    struct layer_env env = {
        .rank = rank, .nranks = nranks, .seed = 9, .batch = batch, .base_file = base};

    snprintf(base, sizeof base, "%s", fixture("solver.prototxt"));
    unmake_net(&made);
    return make_net(&made, text, train, &env, NULL);
}

static inline void build(void)
{
    expect_ok(net_build(made.net, &engine, 9));
}

/* Blob values after a pass, row-major; freed by the caller. */
static inline float *values_of(const char *name)
{
    struct blob *blob = (struct blob *)net_find_blob(made.net, name);
    float *out;

    ck_assert_ptr_nonnull(blob);
    out = malloc(shape_elems(&blob->value.shape) * sizeof *out);
    expect_ok(engine.i->read(engine.context, &blob->value, out));
    return out;
}

static inline void pass(uint64_t first_sample)
{
    const struct pass pass = {.seed = 9, .first_sample = first_sample};

    expect_ok(net_forward(made.net, &pass, NULL, NULL));
}

#endif
