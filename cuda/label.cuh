/* Labels and row numbers, which come as floats. A kernel cannot fail: a label out of range is noted
 * in the report, and the label's place is ignored. */
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

/* Returns 1 + the lowest position with a label out of range, to thread 0; 0: none. */
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
