/* Labels and row numbers, which come as floats: what they stand for, and what becomes of one that
 * stands for nothing. A kernel cannot fail: it leaves a note, and takes such a place for one
 * without a label. */
#ifndef POSEIDON_CUDA_LABEL_CUH
#define POSEIDON_CUDA_LABEL_CUH

#include "kernel.cuh"

enum { LABEL_IGNORED = -1, LABEL_BAD = -2 };

static DEVICE int label_of(const struct kernel_labels *l, float value)
{
    bool fits = value == floorf(value) && value >= -2147483648.0f && value < 2147483648.0f;

    if (fits && l->has_ignore && (int)value == l->ignore)
        return LABEL_IGNORED;
    return fits && (int)value >= 0 && (int)value < l->classes ? (int)value : LABEL_BAD;
}

/* The lowest position whose label is no class: threads look through every blockDim-th one. */
static DEVICE int first_bad(const struct kernel_labels *l, const float *labels)
{
    SHARED int part[THREADS];
    int bad = 0, n = l->outer * l->inner;

    for (int i = threadIdx.x; i < n && !bad; i += blockDim.x)
        if (label_of(l, labels[i]) == LABEL_BAD)
            bad = i + 1;
    part[threadIdx.x] = bad;
    BARRIER();
    if (threadIdx.x == 0)
        for (unsigned t = 1; t < blockDim.x; t++)
            if (part[t] && (!bad || part[t] < bad))
                bad = part[t];
    return bad;
}

static DEVICE void note_bad(const struct kernel_labels *l, const float *labels, int bad)
{
    if (!bad || l->report->position)
        return;
    l->report->classes = l->classes;
    l->report->inner = l->inner;
    l->report->rows = l->rows;
    l->report->label = labels[bad - 1];
    l->report->layer = l->layer;
    l->report->position = bad;
}

#endif
