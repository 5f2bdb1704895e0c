/* A source in memory that can fail and be slow, and feeders over it. */
#ifndef POSEIDON_TESTS_INPUT_FAKE_SOURCE_H
#define POSEIDON_TESTS_INPUT_FAKE_SOURCE_H

#include "input/feeder.h"
#include "tests/input/test_input_common.h"

#include <stdatomic.h>
#include <time.h>

struct fake {
    struct source source;
    uint64_t fail_at;     /* reading this record fails; UINT64_MAX: none */
    bool fail_from_there; /* so do all behind it */
    int delay_us;
    _Atomic uint64_t held_from; /* reading waits before these records; UINT64_MAX: none */
    _Atomic uint64_t calls;
    bool floats_at_4;    /* record 4 says it has floats */
    _Atomic int *closed; /* counts closings, may be NULL */
};

static inline void fake_close(struct source *source)
{
    struct fake *fake = (struct fake *)source;

    if (fake->closed)
        atomic_fetch_add(fake->closed, 1);
    free(fake);
}

static inline int fake_read(struct source *source, uint64_t first, uint64_t count, void *const *out)
{
    struct fake *fake = (struct fake *)source;

    atomic_fetch_add(&fake->calls, 1);
    while (first + count > atomic_load(&fake->held_from))
        nanosleep(&(struct timespec){0, 100000}, NULL);
    if (fake->delay_us)
        nanosleep(&(struct timespec){0, 1000L * fake->delay_us}, NULL);
    if (first + count > source->nrecords)
        return error_set("outside the source");
    for (uint64_t k = 0; k < count; k++) {
        uint64_t r = first + k;
        if (r == fake->fail_at || (fake->fail_from_there && r > fake->fail_at))
            return error_set("record %d is damaged", (int)r);
        for (uint64_t e = 0; e < 16; e++)
            ((uint8_t *)out[0])[k * 16 + e] = (uint8_t)(16 * (r % 16) + e);
        ((float *)out[1])[k] = (float)r;
    }
    return 0;
}

/* The same records one by one, in a time of their own each. */
static inline int fake_read_record(struct source *source, uint64_t number, struct record *out)
{
    struct fake *fake = (struct fake *)source;
    bool floats = fake->floats_at_4 && number == 4;
    uint8_t bytes[16];
    void *fields[2] = {bytes, &out->label};
    int status;

    if (number % 5 == 0)
        nanosleep(&(struct timespec){0, (long)(number * 7919 % 40000)}, NULL);
    expect_ok(strbuf_reserve(&out->planes, 16 * sizeof(float), "a record"));
    out->shape = source->field[0].shape;
    out->type = floats ? SOURCE_F32 : SOURCE_U8;
    out->data = out->planes.bytes;
    status = fake_read(&fake->source, number, 1, fields);
    for (int e = 0; e < 16 && !status; e++)
        if (floats)
            ((float *)(void *)out->planes.data)[e] = (float)bytes[e] + 0.5f;
        else
            out->planes.bytes[e] = bytes[e];
    return status;
}

static const struct source_i fake_i = {.name = "fake", .close = fake_close, .read = fake_read};
static const struct source_i fake_singly_i = {
    .name = "fake", .close = fake_close, .read_record = fake_read_record};

/* Whether fakes give their records one by one; loop tests set it. */
static bool singly;

static inline struct fake *fake_create(uint64_t nrecords)
{
    struct fake *fake = calloc(1, sizeof *fake);

    fake->source.i = singly ? &fake_singly_i : &fake_i;
    fake->source.path = (char *)"fake";
    fake->source.nrecords = nrecords;
    fake->source.nfields = 2;
    fake->source.field[0] = (struct source_field){(char *)"data", {3, {1, 4, 4}}, SOURCE_U8};
    fake->source.field[1] = (struct source_field){(char *)"label", {0, {0}}, SOURCE_F32};
    fake->fail_at = UINT64_MAX;
    atomic_store(&fake->held_from, UINT64_MAX);
    return fake;
}

static inline struct feeder *feed(struct fake *fake, struct feeder_options o, bool augment)
{
    Caffe__TransformationParameter param = CAFFE__TRANSFORMATION_PARAMETER__INIT;
    struct transform t;
    struct feeder *feeder = NULL;

    param.crop_size = 2;
    param.mirror = true;
    if (augment)
        expect_ok(transform_create(&param, &fake->source.field[0].shape, true, NULL, &t));
    expect_ok(feeder_create(&fake->source, augment ? &t : NULL, &o, &feeder));
    return feeder;
}

static inline struct feeder_options options(int batch, int rank, int nranks)
{
    return (struct feeder_options){
        .batch = batch, .rank = rank, .nranks = nranks, .seed = 3, .layer_index = 2, .depth = 3};
}

#endif
