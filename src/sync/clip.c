/* Gradient clipping as Caffe means it: one L2 norm over all parameters. Traffic does not wait for
 * it; updates do. Every chunk's sum of squares is known to exactly one rank; one small allreduce of
 * the vector (zeros elsewhere, so the sum is exact in any order) gives all ranks the same numbers,
 * which are then added in chunk order. */
#include "sync/sync_internal.h"

#include "util/agree.h"

#include <math.h>

int clip_chunk_ready(struct sync *sync, int chunk, double sumsq)
{
    sync->clip.own[chunk] = sumsq;
    sync->clip.local--;
    return clip_advance(sync);
}

int clip_advance(struct sync *sync)
{
    struct clip_state *clip = &sync->clip;
    MPI_Request request;

    if (clip->local > 0 || !clip->factors_ready)
        return 0;
    MPI_TRY(MPI_Iallreduce(clip->own, clip->all, sync->plan->nchunks, MPI_DOUBLE, MPI_SUM,
                           sync->control, &request));
    atomic_fetch_add(&sync->control_sent, (uint64_t)sync->plan->nchunks * sizeof(double));
    return progress_track(sync, request, (struct transfer){.kind = TRANSFER_CLIP});
fail:
    return -1;
}

int clip_complete(struct sync *sync)
{
    struct clip_state *clip = &sync->clip;
    double total = 0;

    for (int c = 0; c < sync->plan->nchunks; c++)
        total += clip->all[c];
    clip->norm = sqrt(total);
    clip->scale = clip->norm > (double)sync->options.clip
                      ? (float)((double)sync->options.clip / clip->norm)
                      : 1.0f;
    clip->local = clip->own_chunks;
    clip->factors_ready = false;
    if (ps_update_all(sync))
        return -1;
    atomic_fetch_add_explicit(&clip->done, 1, memory_order_release);
    progress_wake(sync);
    return 0;
}
