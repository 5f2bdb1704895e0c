/* What the user of a training asks for, as the command line of train fills it in. */
#ifndef POSEIDON_JOB_TRAINER_OPTIONS_H
#define POSEIDON_JOB_TRAINER_OPTIONS_H

#include "engine/engine.h"
#include "exchange/exchange_options.h"
#include "job/ends.h"
#include "spec/override.h"
#include "sync/sync.h"

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

#endif
