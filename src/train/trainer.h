/* One rank of a training run, from the command line's options to the summary. Commands include this
 * header alone; what a trainer consists of is train/parts.h's. */
#ifndef POSEIDON_TRAIN_TRAINER_H
#define POSEIDON_TRAIN_TRAINER_H

#include <mpi.h>

#include "engine/engine.h"
#include "plan/cost.h"
#include "train/deadline.h"
#include "spec/override.h"
#include "exchange/lost.h"
#include "exchange/exchange_options.h"
#include "train/signals.h"
#include "sync/sync.h"
#include "util/json.h"
#include "util/log.h"
#include "util/strbuf.h"

/* Grains of an iteration, where their size is not given. */
enum { REPRODUCIBLE_GRAINS = 8 };

/* Where parameter servers apply the solver. */
enum ps_update {
    PS_UPDATE_AUTO, /* wherever is measured to be faster */
    PS_UPDATE_HOST,
    PS_UPDATE_DEVICE, /* of the worker that serves; an error where its engine has none */
};

/* What the user asked for. Strings are borrowed and NULL where they were not given. */
struct trainer_options {
    const char *solver;              /* path of the solver file */
    struct spec_overrides overrides; /* of the solver's fields */
    const char *weights;             /* paths of weight files, a comma list */
    const char *snapshot;            /* path of the solver state to resume from */
    bool resume;     /* from the run's newest state under the solver's snapshot_prefix that can be
                        read, if there is one, instead of `weights` and `snapshot` */
    const char *run; /* the run's name; NULL: one of its own, or the resumed run's */
    enum signal_effect signals[SIGNALS]; /* per signal: what it does */
    struct deadline deadline;            /* until when training may last; rank 0's counts */
    double snapshot_every;               /* > 0: seconds from one snapshot to the next, at most */
    int keep;                            /* > 0: the number of the run's snapshots that stay */
    const char *keep_best; /* an output of the first test net, by which the best snapshot stays,
                              too; "": its first accuracy; NULL: none */
    int max_bad;           /* damaged records of a data layer that a rank may leave out */
    int skip_nan;   /* > 0: updates whose gradient is not finite are left out; this number of them
                       in a row ends training */
    int check_sync; /* > 0: iterations from one comparison of the ranks' parameters to the next */

    const char *engine;     /* its name */
    const char *profile;    /* engine replay: path of the file of times */
    long long input_chw[3]; /* where no data is read: input size where the net does not give it; 0:
                               unknown */
    bool fake_data;         /* made-up samples in the place of data; no tests, no snapshots */
    struct engine_options computing; /* threads (0: as many as this rank may have cores) and all
                                        that users choose of it; the trainer fills in the rest */
    bool share_gpu;                  /* several ranks may compute on one device */

    struct exchange_options exchange; /* how ranks bring their gradients together */
    enum ps_update ps_update;         /* where servers apply the solver */

    int batch;           /* > 0: samples per rank and pass, replaces the training data's */
    int global_batch;    /* > 0: samples per iteration over all workers; not together with batch */
    bool reproducible;   /* the same bits at any number of ranks */
    int grain;           /* then: samples of a grain; 0: the batch over REPRODUCIBLE_GRAINS */
    const char *balance; /* how the batch is dealt to workers: parts with commas, such as "3,3,1";
                            "": by their speed; NULL: evenly. Not with what leaves workers out */
    bool shuffle;        /* the training data have a new order in each epoch */
    bool sync_bn;        /* BatchNorm by the mean and variance of all workers' batches */
    int max_iter;        /* > 0: iterations, replaces the solver's */
    double epochs;       /* > 0: likewise in passes over the training data; not with max_iter */
    const char *snapshot_prefix; /* replaces the solver's */
    int stop_after; /* > 0: training ends after this number of tests without a better score */

    const char *trace;               /* path of the Chrome trace file to write */
    int64_t trace_first, trace_last; /* iterations in it, inclusive */
    const char *log;                 /* path of the report as JSON lines to write */
    const char *csv;                 /* path of the CSV file of losses, rates and scores */
    const char *tensorboard;         /* folder for the same as TensorBoard's event files */
    const char *summary;             /* path of the JSON summary to write at the end */
    bool json;                       /* the summary, and nothing else, on standard output */
    const char *of_run; /* the given options that all starts of the run must have alike, as lines of
                           util/agreement.h */
    bool dry_run;       /* nothing is to be trained: trainer_dry_run follows, not trainer_run */
};

/* The words of an option, by enum ps_update ("auto", "host", "device"); ended by NULL, as
 * util/choice.h has it. */
extern const char *const ps_update_words[];

/* "stop" (0), "skip" or "skip,N" into the int `target`; fails with what is possible. */
int on_nan_parse(const char *option, const char *text, void *target);

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
