/* Elements of activations: floats, or bfloat16 where the format is half.
 *
 * All operators compute in floats, so each operator has one loop for both kinds: a loop reads and
 * writes by element_at and element_put with a constant `half`, or works on pieces, which are
 * expanded to floats in the first-level cache and rounded when they are stored. */
#ifndef POSEIDON_ENGINE_CPU_ELEMENT_H
#define POSEIDON_ENGINE_CPU_ELEMENT_H

#include "engine/cpu/cpu_internal.h"

#include "device/codec.h"

INLINE float element_at(const void *x, int64_t i, bool half)
{
    return half ? bf16_value(((const uint16_t *)x)[i]) : ((const float *)x)[i];
}

INLINE void element_put(void *y, int64_t i, bool half, float value)
{
    if (half)
        ((uint16_t *)y)[i] = bf16_of(value);
    else
        ((float *)y)[i] = value;
}

/* Returns the address of element i; NULL stays NULL. */
static inline const void *element_place(const void *x, int64_t i, bool half)
{
    return !x ? NULL : half ? (const void *)((const uint16_t *)x + i) : (const float *)x + i;
}

static inline void *element_room(void *y, int64_t i, bool half)
{
    return !y ? NULL : half ? (void *)((uint16_t *)y + i) : (float *)y + i;
}

/* Returns n elements from number `at` on as floats: the elements themselves, or a copy in room. */
static inline const float *piece_load(const void *x, size_t at, size_t n, bool half, float *room)
{
    if (!half)
        return (const float *)x + at;
    bf16_expand((const uint16_t *)x + at, n, room);
    return room;
}

/* Writes n elements from number `at` on as floats into y. */
static inline void piece_copy(const void *x, size_t at, size_t n, bool half, float *y)
{
    if (half)
        bf16_expand((const uint16_t *)x + at, n, y);
    else
        memcpy(y, (const float *)x + at, n * sizeof *y);
}

/* Returns where to write the floats of a piece, before piece_store. */
static inline float *piece_open(void *y, size_t at, bool half, float *room)
{
    return half ? room : (float *)y + at;
}

static inline void piece_store(const float *room, void *y, size_t at, size_t n, bool half)
{
    if (half)
        bf16_take(room, n, (uint16_t *)y + at);
}

#endif
