/* Parses the command line of poseidon train, with its options group by group. */
#include "commands/train_options.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "forecast/profiles.h"
#include "trace/trace.h"
#include "util/choice.h"
#include "util/error.h"
#include "util/units.h"
#include "watch/deadline.h"
#include "watch/monitor.h"

/* ---- parsers of rows ---- */

/* Parses FILE or FILE,A-B: text after the last comma that begins with a digit is iterations. */
static int parse_trace(const char *option, const char *text, void *target)
{
    struct train_request *r = target;
    const char *comma = strrchr(text, ',');
    bool counted = comma && isdigit((unsigned char)comma[1]);
    size_t length = counted ? (size_t)(comma - text) : strlen(text);

    if (length == 0 || length >= sizeof r->trace)
        return error_set("%s=%s names no file: %s=FILE or %s=FILE,A-B", option, text, option,
                         option);
    snprintf(r->trace, sizeof r->trace, "%.*s", (int)length, text);
    r->options.trace = r->trace;
    if (counted &&
        trace_parse_iterations(comma + 1, &r->options.trace_first, &r->options.trace_last))
        return error_context("%s", option);
    return 0;
}

static int parse_phase(const char *option, const char *text, void *target)
{
    (void)target;
    return strcasecmp(text, "TRAIN")
               ? error_set("%s=%s: training runs the phase TRAIN; 'poseidon test' runs TEST",
                           option, text)
               : 0;
}

/* ---- the command line ---- */

static void add_training(struct train_request *r, struct option_rows *rows)
{
    struct trainer_options *o = &r->options;
    const struct option group[] = {
        {.kind = OPTION_GROUP, .help = "what to train"},
        {"solver", OPTION_TEXT, &o->solver, "FILE", "the solver (Caffe's prototxt); required",
         .need = "a solver definition to train: --solver=FILE", .flags = OPTION_OWN,
         .run = OPTION_FREE},
        {"weights", OPTION_TEXT, &o->weights, "FILES",
         "start from these weights, by layer name (comma list)", .engines = "cpu cuda",
         .run = OPTION_FREE},
        {"snapshot", OPTION_TEXT, &o->snapshot, "FILE", "resume from this .solverstate.h5",
         .engines = "cpu cuda", .not_with = "weights",
         .why = "resumes training, and --weights finetunes", .run = OPTION_FREE},
        {"resume", OPTION_FLAG, &o->resume, NULL,
         "resume from this run's newest snapshot, if there is one", .engines = "cpu cuda",
         .run = OPTION_FREE},
        {"run", OPTION_TEXT, &o->run, "NAME", "the run's name, for --resume (default: a new one)",
         .engines = "cpu cuda", .run = OPTION_FREE},
        {"set", OPTION_LIST, &r->settings, "FIELD=VALUE",
         "override a solver field, as in --set base_lr=0.02; may be repeated",
         .run = OPTION_OF_JOB},
        {"batch", OPTION_COUNT, &o->batch, "N",
         "training samples per rank and pass, instead of the net's", .run = OPTION_FREE},
        {"global-batch", OPTION_COUNT, &o->global_batch, "N",
         "training samples per iteration over all ranks", .not_with = "batch",
         .why = "counts the samples of all ranks", .run = OPTION_FREE},
        {"reproducible", OPTION_NAME, &r->reproducible, "GRAIN",
         "get the same bits on any number of ranks: ranks share grains of GRAIN samples "
         "(default: --global-batch in 8 grains)",
         .not_with = "staleness sync-bn drop-stragglers wire lossy",
         .why = "adds up whole gradients of ranks in step", .run = OPTION_OF_JOB},
        {"balance", OPTION_NAME, &o->balance, "PARTS",
         "deal the batch by the workers' speed, measured at the start, or in PARTS such as 3,3,1",
         .engines = "cpu cuda", .not_with = "drop-stragglers comm=none",
         .why = "deals one batch to all workers", .run = OPTION_FREE},
        {"shuffle", OPTION_FLAG, &o->shuffle, NULL,
         "shuffle the training records in each epoch: first blocks of 16 neighbours, then the "
         "records within every 2048 of the new order",
         .engines = "cpu cuda", .run = OPTION_OF_RUN},
        {"sync-bn", OPTION_FLAG, &o->sync_bn, NULL,
         "BatchNorm normalises by the mean and variance over all ranks, not over its own rank "
         "alone",
         .engines = "cpu cuda", .not_with = "staleness comm=none drop-stragglers",
         .why = "adds up the statistics of all ranks in every pass", .run = OPTION_OF_RUN},
        {"max-iter", OPTION_COUNT, &o->max_iter, "N",
         "iterations, instead of the solver's; a last test follows if the solver has tests",
         .run = OPTION_OF_JOB},
        {"epochs", OPTION_REAL, &o->epochs, "N",
         "passes over the training data, instead of iterations; N may be a fraction; a last test "
         "follows if the solver has tests",
         .not_with = "max-iter", .why = "says when training ends", .run = OPTION_OF_JOB},
        {"stop-after", OPTION_COUNT, &o->stop_after, "N",
         "end after N tests in a row without a better accuracy (or loss, if the net has no "
         "accuracy)",
         .engines = "cpu cuda", .run = OPTION_FREE},
        {"snapshot-prefix", OPTION_TEXT, &o->snapshot_prefix, "PREFIX",
         "name snapshots PREFIX_iter_N..., instead of the solver's prefix", .engines = "cpu cuda",
         .run = OPTION_FREE},
        {"stage", OPTION_TEXT, &o->overrides.stages, "LIST",
         "stages added to the training net's state", .flags = OPTION_TUNE | OPTION_CAFFE,
         .run = OPTION_OF_JOB},
        {"level", OPTION_INT, &o->overrides.level, "N", "level of the training net's state",
         .flags = OPTION_TUNE | OPTION_CAFFE, .run = OPTION_OF_JOB},
        {"phase", OPTION_CALL, NULL, "TRAIN", .parse = parse_phase, .flags = OPTION_CAFFE,
         .run = OPTION_FREE},
        {"fake-data", OPTION_NAME, &r->fake_data, "C,H,W",
         "train on made-up samples, without data, tests and snapshots, to try a machine; C,H,W: "
         "size of images, if the net and its data give none",
         .not_with = "snapshot resume run snapshot-prefix snapshot-every max-bad keep keep-best "
                     "stop-after epochs shuffle",
         .why = "has no records, tests and snapshots", .run = OPTION_FREE},
        {"dry-run", OPTION_FLAG, &o->dry_run, NULL,
         "set everything up, report data, memory, disk and hosts, and stop; status 0: ready to "
         "train",
         .not_with = "summary curves trace log", .why = "trains nothing", .run = OPTION_FREE},
    };

    options_add(rows, group, (int)(sizeof group / sizeof *group));
}

static void add_endings(struct train_request *r, struct option_rows *rows)
{
    struct trainer_options *o = &r->options;
    const struct option group[] = {
        {.kind = OPTION_GROUP, .help = "snapshots and signals", .run = OPTION_FREE},
        {"on-signal", OPTION_CALL, o->signals, "NAME=EFFECT,...",
         "effect of INT, HUP, TERM, USR1 and XCPU: stop (after a snapshot), snapshot or none, as "
         "TERM=stop,USR1=snapshot (default: stop; HUP: snapshot). mpirun passes USR1 on to all "
         "ranks, but kills all ranks two seconds after Ctrl-C",
         .parse = signals_parse},
        {"sigint-effect", OPTION_CALL, &o->signals[SIGNAL_INT], "EFFECT",
         .parse = signal_effect_parse, .flags = OPTION_CAFFE},
        {"sighup-effect", OPTION_CALL, &o->signals[SIGNAL_HUP], "EFFECT",
         .parse = signal_effect_parse, .flags = OPTION_CAFFE},
        {"time-limit", OPTION_CALL, &o->deadline, "DURATION",
         "save and stop before this time is over: 4h, 30min, 1:30:00 or none (default: the "
         "scheduler's limit)",
         .parse = deadline_parse},
        {"snapshot-every", OPTION_CALL, &o->snapshot_every, "DURATION|P%",
         "write a snapshot at least this often, in addition to the solver's; P%, with --keep: as "
         "often as snapshots take about P% of the time, such as 1%",
         .parse = saving_pace_parse, .engines = "cpu cuda"},
        {"max-bad", OPTION_INT, &o->max_bad, "N",
         "leave out and name up to N damaged records per data set and rank, such as missing or "
         "undecodable images (default 0: an error)",
         .engines = "cpu cuda", .default_words = "0"},
        {"on-nan", OPTION_CALL, &o->skip_nan, "HOW",
         "if a gradient is not finite: stop (default), or skip: leave the update out on all ranks; "
         "skip,N: N updates in a row end training (default 10). MAX pooling ignores NaN, as in "
         "Caffe",
         .parse = on_nan_parse, .engines = "cpu cuda", .default_words = "stop",
         .not_with = "comm=none staleness", .why = "decides for all ranks before any update"},
        {"check-sync", OPTION_COUNT, &o->check_sync, "N",
         "every N iterations, compare the ranks' parameters bit for bit", .engines = "cpu cuda",
         .not_with = "comm=none staleness", .why = "needs equal parameters on all ranks",
         .flags = OPTION_TUNE},
        {"stall-timeout", OPTION_CALL, &o->exchange.stall_timeout, "DURATION",
         "treat a rank as lost after this long without progress, or when all ranks wait for it; "
         "the run ends with status 76 (default 5min; none: never)",
         .parse = units_parse_pause},
        {"keep", OPTION_COUNT, &o->keep, "N",
         "keep the N newest snapshots of this run (default: all)", .engines = "cpu cuda"},
        {"keep-best", OPTION_NAME, &o->keep_best, "OUTPUT",
         "keep the snapshot with the best test score as PREFIX_best, whatever --keep says. OUTPUT: "
         "the test net's output that decides (loss: the lowest, else the highest; default: the "
         "first accuracy)",
         .engines = "cpu cuda", .not_with = "servers",
         .why = "is decided by the workers' test scores"},
    };

    options_add(rows, group, (int)(sizeof group / sizeof *group));
}

static void add_computing(struct train_request *r, struct option_rows *rows)
{
    struct trainer_options *o = &r->options;
    const struct option group[] = {
        {.kind = OPTION_GROUP, .help = "computing"},
        {"gpu", OPTION_TEXT, &r->gpu, "all|LIST", .flags = OPTION_OWN | OPTION_CAFFE,
         .run = OPTION_FREE},
        {"threads", OPTION_THREADS, &o->computing.threads, "N",
         "compute threads per rank; dedicated servers use them for updates (default: all cores of "
         "the rank; of 20 or more cores, one is left for communication)",
         .flags = OPTION_OWN, .run = OPTION_FREE},
        {"engine", OPTION_TEXT, &o->engine, "cpu|cuda|replay",
         "compute engine (default: cpu); cuda: each rank takes one GPU of its machine; replay "
         "computes nothing, see 'poseidon help tuning'",
         .flags = OPTION_OWN, .run = OPTION_FREE},
        {"profile", OPTION_TEXT, &o->profile, "FILE",
         "replay: layer times: a file of poseidon time --profile, or a device: " PROFILES_DEVICES,
         .engines = "replay", .flags = OPTION_OWN | OPTION_TUNE, .run = OPTION_FREE},
        {"dilate", OPTION_COUNT, &o->exchange.dilate, "K",
         "replay: divide the bytes on the network by K, and nothing else", .engines = "replay",
         .flags = OPTION_TUNE, .run = OPTION_FREE},
        {"share-gpu", OPTION_FLAG, &o->share_gpu, NULL,
         "cuda: several ranks may compute on one GPU", .engines = "cuda", .flags = OPTION_TUNE,
         .run = OPTION_FREE},
        {"direct", OPTION_CHOICE, &o->exchange.direct, "HOW",
         "cuda: MPI sends and receives in GPU memory: auto (default: if MPI can), on, off",
         sync_direct_words, .flags = OPTION_TUNE, .run = OPTION_FREE},
        {"ps-update", OPTION_CHOICE, &o->ps_update, "PLACE",
         "cuda: servers apply the solver on the host or the device; auto (default) measures which "
         "is faster",
         ps_update_words, .default_words = "auto host", .not_with = "staleness drop-stragglers",
         .why = "updates parameters that all workers share", .flags = OPTION_TUNE,
         .run = OPTION_FREE},
    };

    options_add(rows, group, (int)(sizeof group / sizeof *group));
    options_add_engine(rows, &o->computing);
}

static void add_communication(struct train_request *r, struct option_rows *rows)
{
    const struct option heading = {
        .kind = OPTION_GROUP, .help = "communication", .run = OPTION_FREE};

    options_add(rows, &heading, 1);
    comm_help(sync_schemes, OPTIONS_INDENT, r->comm_help);
    exchange_add_rows(rows, &r->options.exchange, r->comm_help);
    options_add_tuning(rows);
}

static void add_reports(struct train_request *r, struct option_rows *rows)
{
    struct trainer_options *o = &r->options;
    const struct option group[] = {
        {.kind = OPTION_GROUP, .help = "reports", .run = OPTION_FREE},
        {"trace", OPTION_CALL, r, "FILE[,A-B]",
         "write a timeline of all ranks for ui.perfetto.dev; A-B: iterations (default: all)",
         .parse = parse_trace},
        {"log", OPTION_TEXT, &o->log, "FILE",
         "write a time breakdown by rank and layer, as JSON lines; each layer's transfer is timed "
         "alone at the end",
         .flags = OPTION_TUNE},
        {"curves", OPTION_LIST, &r->curves, "PATH",
         "write loss, learning rate and test scores during training, to FILE.csv or to a folder as "
         "TensorBoard's event files; a resumed run appends; may be repeated",
         .engines = "cpu cuda"},
        {"summary", OPTION_TEXT, &o->summary, "FILE",
         "write the run's figures as JSON; -: print only the figures on standard output"},
        {"force", OPTION_FLAG, &r->force, NULL,
         "replace the files of --summary, --curves, --trace and --tune=log if they exist, as "
         "--resume does"},
    };

    options_add(rows, group, (int)(sizeof group / sizeof *group));
}

/* Sets the defaults and adds the rows of options. */
static void start(struct train_request *r, struct option_rows *rows)
{
    *r = (struct train_request){.options = {.exchange = exchange_options_usual(EXCHANGE_TRAIN),
                                            .trace_last = INT32_MAX,
                                            .signals = {[SIGNAL_INT] = SIGNAL_STOP,
                                                        [SIGNAL_HUP] = SIGNAL_SNAPSHOT,
                                                        [SIGNAL_TERM] = SIGNAL_STOP,
                                                        [SIGNAL_USR1] = SIGNAL_STOP,
                                                        [SIGNAL_XCPU] = SIGNAL_STOP}}};
    rows->n = 0;
    add_training(r, rows);
    add_endings(r, rows);
    add_computing(r, rows);
    add_communication(r, rows);
    add_reports(r, rows);
}

int train_options_parse(int argc, char **argv, struct train_request *r)
{
    struct option_rows rows;
    struct command_line line = {
        .command = "train",
        .synopsis = "--solver=FILE [OPTIONS]",
        .example = "  mpirun -np 4 poseidon train --solver=models/lenet/solver.prototxt",
        .about = "Trains the solver's net. Under mpirun -np N, each of N ranks takes batch_size "
                 "samples per pass: N ranks train like one rank with N times the batch.",
        .options = rows.row,
        .gpus = &r->gpu,
        .engine = &r->options.engine,
        .alike = &r->alike,
        .run = &r->run};
    int nwords, status;

    start(r, &rows);
    line.noptions = rows.n;
    status = options_parse(&line, argc, argv, &nwords);
    return status ? status : train_options_settle(r);
}

void train_options_print_tuning(void)
{
    struct train_request request;
    struct option_rows rows;

    start(&request, &rows);
    printf("names of --tune NAME=VALUE, for developers and benchmarks:\n\n");
    options_print_tuning(&rows);
}
