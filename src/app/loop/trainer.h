/* One rank of a training run, from the command line's options to the summary. Commands include this
 * header; what a trainer consists of is loop/parts.h's. */
#ifndef POSEIDON_LOOP_TRAINER_H
#define POSEIDON_LOOP_TRAINER_H

#include <mpi.h>

#include "exchange/lost.h"
#include "job/trainer_options.h"
#include "util/json.h"
#include "util/log.h"
#include "util/strbuf.h"

struct trainer;

/* Reads everything, builds nets, loads weights or state, starts traffic. `options` and `log` are
 * borrowed until trainer_destroy. Collective over `world`; fails on all ranks together, with *out
 * NULL. */
int trainer_create(MPI_Comm world, const struct trainer_options *options, struct log *log,
                   struct trainer **out);

/* Whether the state that was read has reached max_iter, which was said: trainer_run has nothing to
 * do, and is not to be called. */
bool trainer_is_finished(const struct trainer *trainer);

/* Trains to max_iter, or until a signal stops it, which is no failure; then reports. Once.
 * Collective; after a failure on any rank it fails on all ranks with that one's message, and
 * transfers may be unfinished. */
int trainer_run(struct trainer *trainer);

/* Instead of trainer_run, after options.dry_run: what would be trained, on which data, from which
 * weights, with how much memory, disk and traffic, and where; rank 0 appends it to `out`. Fails
 * with all reasons in one message where the run is not ready to train. Collective; fails on all
 * ranks together. */
int trainer_dry_run(struct trainer *trainer, struct strbuf *out);

/* Why a run ended, as the status of its process. README.md and the job scripts rely on these. */
enum {
    TRAINER_DONE = 0,
    TRAINER_SAVED = 75,           /* stopped early with a snapshot: EX_TEMPFAIL, start again */
    TRAINER_LOST = EXCHANGE_LOST, /* a rank was lost: start again, perhaps without its host */
    TRAINER_INTERRUPTED = 130     /* stopped early without one */
};

/* One of these, after trainer_run succeeded. */
int trainer_exit_status(const struct trainer *trainer);

/* The summary as a JSON object. Rank 0, after trainer_run succeeded; not collective. */
void trainer_summary(const struct trainer *trainer, struct json *json);

/* Notes in PREFIX.run that the run is over. Rank 0, after all that the run leaves is written: a run
 * that is killed before, or cannot write its summary, goes on with --resume and writes it. Fails
 * where the file cannot be written; not collective. */
int trainer_end(struct trainer *trainer);

/* NULL is allowed. Collective, for it frees communicators. */
void trainer_destroy(struct trainer *trainer);

#endif
