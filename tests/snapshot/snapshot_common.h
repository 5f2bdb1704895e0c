/* What the suites of snapshots share: a net that fits the fixtures, and what h5py says of a file.
 */
#ifndef POSEIDON_TESTS_SNAPSHOT_SNAPSHOT_COMMON_H
#define POSEIDON_TESTS_SNAPSHOT_SNAPSHOT_COMMON_H

#include "snapshot/snapshot.h"
#include "tests/files.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DATA   TEST_DATA "/solver/"
#define PYTHON "/usr/bin/python3"

static inline void assert_error_begins(const char *format, ...)
{
    char expected[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(expected, sizeof expected, format, args);
    va_end(args);
    ck_assert_msg(strncmp(error_text(), expected, strlen(expected)) == 0,
                  "'%s' does not begin with '%s'", error_text(), expected);
}

static inline void seed_random(void)
{
    const char *chosen = getenv("POSEIDON_TEST_SEED");
    unsigned seed = chosen ? (unsigned)strtoul(chosen, NULL, 10) : (unsigned)time(NULL);

    printf("seed %u\n", seed);
    srand(seed);
}

/* A net of the layers in caffe.caffemodel.h5, with one more and without one of those. */
struct net {
    float conv_w[18], conv_b[2], inception_w[8], inception_b[4], ip_w[12], ip_b[3], extra_w[6];
    struct snapshot_layer layers[6];
    int nlayers;
};

static const struct shape conv_w = {4, {2, 1, 3, 3}}, conv_b = {1, {2}};
static const struct shape inception_w = {4, {4, 2, 1, 1}}, inception_b = {1, {4}};
static const struct shape ip_w = {2, {3, 4}}, ip_b = {1, {3}}, extra_w = {2, {2, 3}};

static inline void net_init(struct net *net)
{
    memset(net, 0, sizeof *net);
    net->layers[0] = (struct snapshot_layer){"mnist", 0, {{0}}};
    net->layers[1] = (struct snapshot_layer){
        "conv1", 2, {{&conv_w, net->conv_w, false}, {&conv_b, net->conv_b, false}}};
    net->layers[2] = (struct snapshot_layer){
        "inception_3a/1x1",
        2,
        {{&inception_w, net->inception_w, false}, {&inception_b, net->inception_b, false}}};
    net->layers[3] = (struct snapshot_layer){"relu_new", 0, {{0}}};
    net->layers[4] =
        (struct snapshot_layer){"ip", 2, {{&ip_w, net->ip_w, false}, {&ip_b, net->ip_b, false}}};
    net->layers[5] = (struct snapshot_layer){"fc_new", 1, {{&extra_w, net->extra_w, false}}};
    net->nlayers = 6;
}

static inline void assert_ramp(const float *values, int n, float start)
{
    for (int i = 0; i < n; i++)
        ck_assert_msg(values[i] == start + (float)i, "value %d is %g, expected %g", i,
                      (double)values[i], (double)(start + (float)i));
}

/* What h5py says of a file of ours; skips the comparison, aloud, where there is no h5py. */
static inline bool show(const char *path, char *text, size_t size)
{
    char command[1024];
    FILE *pipe;
    size_t n;

    if (system(PYTHON " -c 'import h5py' 2>/dev/null") != 0) {
        fprintf(stderr, "skipped: " PYTHON " has no h5py (Debian: python3-h5py)\n");
        return false;
    }
    snprintf(command, sizeof command, PYTHON " " DATA "show.py %s", path);
    pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    n = fread(text, 1, size - 1, pipe);
    text[n] = '\0';
    ck_assert_int_eq(pclose(pipe), 0);
    return true;
}

#endif
