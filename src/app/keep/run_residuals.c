/* Moves residuals from all ranks into a run's snapshots, and back. */
#include "keep/run.h"

#include "sync/sync.h"
#include "util/agree.h"
#include "util/alloc.h"
#include "util/clock.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* Writes the layout of residuals as text, the number of arenas first (see snapshot_state). */
static void describe(const struct sync_residuals *of, char *text, size_t bytes)
{
    snprintf(text, bytes, "%d: leaders %d sums %d bases %d gradients %" PRId64,
             sync_residual_arenas(of), of->leaders, of->sums, of->bases, of->gradients);
}

static struct sync_residuals recall(const char *text)
{
    struct sync_residuals of = {.leaders = 0};
    int all;

    if (sscanf(text, "%d: leaders %d sums %d bases %d gradients %" SCNd64, &all, &of.leaders,
               &of.sums, &of.bases, &of.gradients) != 5 ||
        of.gradients < 1 || all != sync_residual_arenas(&of))
        of = (struct sync_residuals){.leaders = 0};
    return of;
}

/* Compares the state's residuals, `from`, with this start's, `to`. left: residuals dropped. */
static void tell(struct log *log, const struct sync_residuals *from,
                 const struct sync_residuals *to, size_t left)
{
    if (!sync_residual_arenas(from) && sync_residual_arenas(to))
        LOG_WARNING(log, "The snapshot has no residuals: if its run encoded gradients, their "
                         "unsent rest is lost, and the resumed run differs in its last bits");
    if (from->leaders > 0 && to->leaders > 0 && from->leaders != to->leaders)
        LOG_INFO(log, "The residuals of %d ranks are dealt evenly to %d ranks", from->leaders,
                 to->leaders);
    if (left > 0)
        LOG_WARNING(
            log, "%zu residuals are dropped: their parameters are sent in another way from here on",
            left);
}

int run_load_residuals_all(struct training_run *run, struct sync *sync,
                           const struct train_state *at, bool resumed)
{
    struct sync_residuals from = recall(at->residuals), to = sync_residuals(sync);
    float *arena = NULL;
    size_t left = 0;
    int status = 0;

    run->residuals_bytes =
        (double)sync_residual_arenas(&to) * (double)run->net->nlearnable * sizeof(float);
    if (!resumed)
        return 0;
    if (run->job->rank == 0 && sync_residual_arenas(&from) &&
        !(arena = alloc_array(run->net->elems, sizeof *arena, "residuals")))
        status = -1;
    status = error_agree(run->job->world, status);
    for (int i = 0; i < sync_residual_arenas(&from) && !status; i++) {
        if (arena)
            status = checkpoint_read_residuals(run->net, run->model, i, arena);
        if (error_agree(run->job->world, status) ||
            sync_load_residuals(sync, &from, i, arena, &left))
            status = -1;
    }
    free(arena);
    if (!status && run->job->rank == 0)
        tell(run->job->log, &from, &to, left);
    return status;
}

void run_drop_residuals(const struct training_run *run, int64_t iteration)
{
    if (prefix_lock_check(run->lock) == 0)
        checkpoint_drop_residuals(run->job->solver->snapshot_prefix, iteration, NULL);
}

int run_save_residuals_all(struct training_run *run, struct sync *sync, struct train_state *state)
{
    struct sync_residuals of = sync_residuals(sync);
    double start = clock_seconds();
    int status = 0;

    if (!sync_residual_arenas(&of))
        return 0;
    assert(state->iteration >= run->file.begun);
    if (run->job->rank == 0 && prefix_lock_check(run->lock))
        return -1;
    if (run->writer)
        snapshot_writer_make_room(run->writer, state->iteration);
    for (int i = 0; i < sync_residual_arenas(&of); i++) {
        float *arena;

        if (sync_gather_residuals(sync, i, &arena))
            return -1;
        if (arena && !status)
            status = checkpoint_write_residuals(run->net, run->job->solver->snapshot_prefix,
                                                run->file.run, state, i, arena);
    }
    run->residuals_seconds = clock_seconds() - start;
    if (!status) {
        describe(&of, state->residuals, sizeof state->residuals);
        return 0;
    }
    LOG_WARNING(
        run->job->log,
        "The residuals of iteration %" PRId64
        " could not be written: %s. A run that resumes from its snapshot differs in the last bits",
        state->iteration, error_text());
    run_drop_residuals(run, state->iteration);
    return 0;
}
