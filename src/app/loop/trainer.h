/* One rank of a training run, from the options to the summary. Commands include this header;
 * loop/parts.h has the parts of a trainer. */
#ifndef POSEIDON_LOOP_TRAINER_H
#define POSEIDON_LOOP_TRAINER_H

#include <mpi.h>

#include "exchange/lost.h"
#include "job/trainer_options.h"
#include "util/json.h"
#include "util/log.h"
#include "util/strbuf.h"

struct trainer;

/* Reads all files, builds nets, loads weights or state, and opens communication. Borrows `options`
 * and `log` until trainer_destroy. Collective over `world`; fails on all ranks together, with *out
 * NULL. */
int trainer_create(MPI_Comm world, const struct trainer_options *options, struct log *log,
                   struct trainer **out);

/* Returns true if the loaded state has reached max_iter, which is logged. Do not call trainer_run
 * then. */
bool trainer_is_finished(const struct trainer *trainer);

/* Trains once, to max_iter or until a signal stops training, which is no failure; then reports.
 * Collective; after a failure on any rank, fails on all ranks with that rank's message, and
 * transfers may be unfinished. */
int trainer_run(struct trainer *trainer);

/* Appends to rank 0's `out` what would be trained, with which data, weights, memory, disk and
 * traffic, and where; with options.dry_run, instead of trainer_run. Fails with all reasons in one
 * message if the run cannot train. Collective; fails on all ranks together. */
int trainer_dry_run(struct trainer *trainer, struct strbuf *out);

/* Exit status of a run, by the reason of its end. README.md and the job scripts rely on it. */
enum {
    TRAINER_DONE = 0,
    TRAINER_SAVED = 75,           /* stopped early with a snapshot: EX_TEMPFAIL, start again */
    TRAINER_LOST = EXCHANGE_LOST, /* a rank was lost: start again, perhaps without its host */
    TRAINER_INTERRUPTED = 130     /* stopped early without a snapshot */
};

/* Returns the exit status, after trainer_run succeeded. */
int trainer_exit_status(const struct trainer *trainer);

/* Writes the summary as a JSON object. Rank 0, after trainer_run succeeded; not collective. */
void trainer_summary(const struct trainer *trainer, struct json *json);

/* Notes in PREFIX.run that the run is over. Call on rank 0 after all other files are written:
 * --resume continues a run that was killed before, and writes its summary. Fails if the file cannot
 * be written; not collective. */
int trainer_end(struct trainer *trainer);

/* Frees the trainer and its communicators; NULL is allowed. Collective. */
void trainer_destroy(struct trainer *trainer);

#endif
