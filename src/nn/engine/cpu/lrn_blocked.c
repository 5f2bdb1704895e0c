/* LRN across five channels by permutations.
 *
 * Eight channels of a pixel are a vector. A window's sum takes its neighbours from the vectors
 * before and after, without a store whose pieces a load would wait for; and s^-0.75 are two roots
 * and a quotient, which are rounded alike by all processors. Octets of channels are gone through
 * one by one, some pixels of each: these are read piece by piece, and asked for ahead. */
#include "engine/cpu/lrn_blocked.h"

#include "engine/cpu/cpu_internal.h"
#include "engine/cpu/octet.h"

#include <math.h>
#include <string.h>

/* The sums over five lanes of `at`, with those of the octets before and after it. */
INLINE void window_sums(const floats *before, const floats *at, const floats *after, floats *sum)
{
    const floats a = *before, b = *at, c = *after;

    *sum = SHUFFLE(a, b, 6, 7, 8, 9, 10, 11, 12, 13) + SHUFFLE(a, b, 7, 8, 9, 10, 11, 12, 13, 14) +
           b + SHUFFLE(b, c, 1, 2, 3, 4, 5, 6, 7, 8) + SHUFFLE(b, c, 2, 3, 4, 5, 6, 7, 8, 9);
}

INLINE void square_roots(const floats *of, floats *roots)
{
    float values[OCTET];

    memcpy(values, of, sizeof values);
#pragma omp simd
    for (int i = 0; i < OCTET; i++)
        values[i] = sqrtf(values[i]);
    memcpy(roots, values, sizeof values);
}

/* s^-0.75; NaN for infinity, as for NaN: lost values must not look like small ones. */
INLINE void power(const floats *s, floats *out)
{
    floats root, fourth;

    square_roots(s, &root);
    square_roots(&root, &fourth);
    *out = 1 / (root * fourth) + 0 * *s;
}

/* Where an octet of channels begins; NULL: there is none. */
INLINE const float *octet_at(const struct lrn_blocked *a, int64_t octet, const float *x)
{
    int64_t channel = octet * OCTET;

    if (octet < 0 || octet >= a->octets)
        return NULL;
    return x + channel / a->block * a->pixels * a->block + channel % a->block;
}

/* What is read two octets later, of these n pixels or of the next ones. */
INLINE const float *octet_ahead(const struct lrn_blocked *a, int64_t octet, int64_t n,
                                const float *x)
{
    int64_t later = octet + 2;

    return later < a->octets ? octet_at(a, later, x)
                             : octet_at(a, later % a->octets, x) + n * a->block;
}

INLINE void square_load(const float *x, int64_t i, floats *square)
{
    *square = (floats){0};
    if (x)
        *square = *(const floats *)(x + i) * *(const floats *)(x + i);
}

/* Three octets of x, and s of the middle one. */
struct octets {
    const float *before, *at, *after;
};

INLINE struct octets octets_around(const struct lrn_blocked *a, int64_t octet, const float *x)
{
    return (struct octets){octet_at(a, octet - 1, x), octet_at(a, octet, x),
                           octet_at(a, octet + 1, x)};
}

INLINE void norm(const struct lrn_blocked *a, const struct octets *x, int64_t i, floats *s)
{
    floats before, at, after;

    square_load(x->before, i, &before);
    square_load(x->at, i, &at);
    square_load(x->after, i, &after);
    window_sums(&before, &at, &after, s);
    *s = a->k + a->scale * *s;
}

CPU_KERNEL void lrn_blocked_forward(const struct lrn_blocked *a, int64_t n, const float *x,
                                    float *y)
{
    for (int64_t o = 0; o < a->octets; o++) {
        const struct octets at = octets_around(a, o, x);
        const float *ahead = octet_ahead(a, o, n, x);
        float *to = y + (at.at - x);
        for (int64_t i = 0; i < n * a->block; i += a->block) {
            floats s, factor;
            __builtin_prefetch(ahead + i);
            norm(a, &at, i, &s);
            power(&s, &factor);
            *(floats *)(to + i) = *(const floats *)(at.at + i) * factor;
        }
    }
}

/* s^-0.75 and dy x s^-1.75 of an octet. */
struct ratios {
    floats power[LRN_TILE], ratio[LRN_TILE];
};

INLINE void ratios_make(const struct lrn_blocked *a, int64_t octet, int64_t n, const float *x,
                        const float *dy, struct ratios *r)
{
    const struct octets at = octets_around(a, octet, x);
    const float *from = dy + (at.at - x);
    const float *ahead = octet_ahead(a, octet, n, x), *ahead_dy = dy + (ahead - x);

    for (int64_t p = 0; p < n; p++) {
        int64_t i = p * a->block;
        floats s;
        __builtin_prefetch(ahead + i);
        __builtin_prefetch(ahead_dy + i);
        norm(a, &at, i, &s);
        power(&s, &r->power[p]);
        r->ratio[p] = *(const floats *)(from + i) * *(const floats *)(at.at + i) * r->power[p] / s;
    }
}

/* dx = dy s^-0.75 - 1.5 scale x * sum over the window of dy x s^-1.75. Ratios of the octet after
 * are made before the sums of this one. */
CPU_KERNEL void lrn_blocked_backward(const struct lrn_blocked *a, int64_t n, const float *x,
                                     const float *dy, float *dx)
{
    const float factor = 1.5f * a->scale;
    struct ratios ring[3];
    const floats none = {0};

    ratios_make(a, 0, n, x, dy, &ring[0]);
    for (int64_t o = 0; o < a->octets; o++) {
        const struct ratios *before = &ring[(o + 2) % 3], *at = &ring[o % 3];
        struct ratios *after = &ring[(o + 1) % 3];
        const bool first = o == 0, last = o + 1 == a->octets;
        int64_t from = octet_at(a, o, x) - x;
        if (!last)
            ratios_make(a, o + 1, n, x, dy, after);
        for (int64_t p = 0; p < n; p++) {
            int64_t i = from + p * a->block;
            floats sum;
            window_sums(first ? &none : &before->ratio[p], &at->ratio[p],
                        last ? &none : &after->ratio[p], &sum);
            *(floats *)(dx + i) =
                *(const floats *)(dy + i) * at->power[p] - factor * *(const floats *)(x + i) * sum;
        }
    }
}
