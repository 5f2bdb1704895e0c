/* Copies and services of devices that work in the host's memory: each call returns when its work is
 * done, and a copy whose source is its target does nothing. */
#include "device/codec.h"
#include "device/device.h"
#include "device/vector.h"

#include "util/error.h"

#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE_LINE = 64 };

static int enter(void *context)
{
    (void)context;
    return 0;
}

/* Aligns memory of calloc (untouched pages cost nothing), and keeps calloc's pointer in front. */
static int host_alloc(void *context, size_t bytes, const char *what, void **out)
{
    char *given = bytes <= SIZE_MAX - CACHE_LINE ? calloc(1, bytes + CACHE_LINE) : NULL;
    char *memory;

    (void)context;
    *out = NULL;
    if (!given)
        return error_memory(bytes, what);
    memory = given + (CACHE_LINE - (uintptr_t)given % CACHE_LINE);
    assert((size_t)(memory - given) >= sizeof given); /* malloc aligns to twice a pointer */
    memcpy(memory - sizeof given, &given, sizeof given);
    *out = memory;
    return 0;
}

static void host_free(void *context, void *memory)
{
    char *given;

    (void)context;
    if (!memory)
        return;
    memcpy(&given, (char *)memory - sizeof given, sizeof given);
    free(given);
}

static int ticket_create(void *context, struct device_ticket **out)
{
    (void)context;
    *out = NULL;
    return 0;
}

static void ticket_destroy(void *context, struct device_ticket *ticket)
{
    (void)context, (void)ticket;
}

/* Returns true if source and target are the same rows, whose strides must then be equal. */
static bool is_one_place(const struct device_rows *rows)
{
    assert(rows->host != rows->memory || rows->rows <= 1 || rows->host_stride == rows->stride);
    return rows->host == rows->memory;
}

static void copy_rows(float *to, size_t to_stride, const float *from, size_t from_stride,
                      const struct device_rows *rows)
{
    size_t bytes = rows->width * sizeof *to;

    for (size_t r = 0; r < rows->rows; r++)
        memcpy(to + r * to_stride, from + r * from_stride, bytes);
}

static int copy(void *context, enum device_direction direction, const struct device_rows *rows,
                enum device_turn turn, struct device_ticket *ticket)
{
    (void)context, (void)turn, (void)ticket;
    if (is_one_place(rows))
        return 0;
    if (direction == DEVICE_STORE)
        copy_rows(rows->memory, rows->stride, rows->host, rows->host_stride, rows);
    else
        copy_rows(rows->host, rows->host_stride, rows->memory, rows->stride, rows);
    return 0;
}

static int ready(void *context, struct device_ticket *ticket)
{
    (void)context, (void)ticket;
    return 1;
}

static int order(void *context, struct device_ticket *ticket)
{
    (void)context, (void)ticket;
    return 0;
}

const struct device_copies_i device_host_copies = {
    .enter = enter,
    .host_alloc = host_alloc,
    .host_free = host_free,
    .ticket_create = ticket_create,
    .ticket_destroy = ticket_destroy,
    .copy = copy,
    .ready = ready,
    .order = order,
};

static int host_update(void *context, const struct device_update *update, float *value,
                       const float *grad, float *history, size_t stride, size_t n,
                       enum device_turn turn)
{
    (void)context, (void)turn;
    rule_update(update, value, grad, history, stride, n);
    return 0;
}

int device_host_sumsq(void *context, const float *x, float scale, size_t n, double *out)
{
    (void)context;
    *out = vector_sumsq(x, n, scale);
    return 0;
}

int device_host_encode(void *context, enum device_code code, const float *x, float *residual,
                       size_t rows, size_t n, void *out, enum device_turn turn,
                       struct device_ticket *ticket)
{
    const struct codec *codec = code == DEVICE_BF16 ? &codec_bf16 : &codec_onebit;

    (void)context, (void)turn, (void)ticket;
    codec->encode(x, residual, rows, n, out);
    return 0;
}

const struct device_services_i device_host_services = {
    .update = host_update, .sumsq = device_host_sumsq, .encode = device_host_encode};

int device_host_write(void *context, float *to, const float *from, size_t n)
{
    (void)context;
    memcpy(to, from, n * sizeof *to);
    return 0;
}

int device_host_read(void *context, const float *from, float *to, size_t n)
{
    return device_host_write(context, to, from, n);
}
