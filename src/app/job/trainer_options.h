/* Options of a training, which the command line of train fills in. */
#ifndef POSEIDON_JOB_TRAINER_OPTIONS_H
#define POSEIDON_JOB_TRAINER_OPTIONS_H

#include "engine/engine.h"
#include "exchange/exchange_options.h"
#include "job/ends.h"
#include "spec/override.h"
#include "sync/sync.h"

/* Default number of grains in an iteration. */
enum { REPRODUCIBLE_GRAINS = 8 };

/* Place where parameter servers apply the solver. */
enum ps_update {
    PS_UPDATE_AUTO, /* host or device, by measured update rates */
    PS_UPDATE_HOST,
    PS_UPDATE_DEVICE, /* device of the worker that serves; an error if its engine has none */
};

/* Snapshots in addition to the solver's. Both members 0: none. */
struct saving_pace {
    double seconds; /* > 0: longest time between snapshots */
    double share;   /* > 0: largest fraction of the training time that snapshots may take */
};

/* Options as the user gave them. Strings are borrowed; NULL: not given. */
struct trainer_options {
    const char *solver;              /* path of the solver file */
    struct spec_overrides overrides; /* values for the solver's fields */
    const char *weights;             /* paths of weight files, a comma list */
    const char *snapshot;            /* path of the solver state to resume from */
    bool resume; /* resume from the run's newest readable state under snapshot_prefix; without such
                    a state, start from `weights` or `snapshot` */
    const char *run; /* name of the run; NULL: a new name, or the resumed run's */
    enum signal_effect signals[SIGNALS]; /* effect of each signal */
    struct deadline deadline;            /* time limit of training; rank 0's value counts */
    struct saving_pace snapshot_every;   /* snapshots in addition to the solver's */
    int keep;                            /* > 0: number of the run's snapshots to keep */
    const char *keep_best; /* output of the first test net that decides the best snapshot to keep;
                              "": its first accuracy; NULL: none */
    int max_bad;           /* number of damaged records that a rank may skip per data layer */
    int skip_nan;   /* > 0: skip updates with a NaN or infinite gradient; end training after this
                       number in a row */
    int check_sync; /* > 0: iterations between two comparisons of the ranks' parameters */

    const char *engine;     /* name of the engine */
    const char *profile;    /* path of the file of times, for engine replay */
    long long input_chw[3]; /* input size without data, if the net gives none; 0: unknown */
    bool fake_data;         /* made-up samples instead of data; no tests, no snapshots */
    struct engine_options computing; /* settings of the engine that users choose, such as threads
                                        (0: the rank's share of cores); the trainer sets the rest */
    bool share_gpu;

    struct exchange_options exchange; /* exchange of the ranks' gradients */
    enum ps_update ps_update;         /* place where servers apply the solver */

    int batch;         /* > 0: samples per rank and pass, instead of the training data's batch */
    int global_batch;  /* > 0: samples per iteration over all workers; not together with batch */
    bool reproducible; /* the same bits at any number of ranks */
    int grain;         /* with `reproducible`: samples of a grain; 0: batch / REPRODUCIBLE_GRAINS */
    const char *balance; /* proportions of the workers' batches, such as "3,3,1"; "": by measured
                            speed; NULL: equal. Not with options that leave workers out */
    bool shuffle;        /* a new order of the training data in each epoch */
    bool sync_bn;        /* BatchNorm with mean and variance of all workers' batches */
    int max_iter;        /* > 0: iterations, instead of the solver's */
    double epochs;       /* > 0: passes over the training data; not with max_iter */
    const char *snapshot_prefix; /* replacement of the solver's snapshot_prefix */
    int stop_after; /* > 0: training ends after this number of tests without a better score */

    const char *trace;               /* path of the Chrome trace file to write */
    int64_t trace_first, trace_last; /* first and last iteration in the trace */
    const char *log;                 /* path of the report as JSON lines to write */
    const char *csv;                 /* path of the CSV file of losses, rates and scores */
    const char *tensorboard;         /* folder for the same figures as TensorBoard's event files */
    const char *summary;             /* path of the JSON summary to write at the end */
    bool json;                       /* only the summary on standard output */
    const char *of_run; /* options that must be the same at each start of the run, as lines of
                           util/agreement.h */
    bool dry_run;       /* trainer_dry_run is called instead of trainer_run */
};

/* Words for enum ps_update, indexed by its values ("auto", "host", "device") and ended by NULL, for
 * util/choice.h. */
extern const char *const ps_update_words[];

#endif
