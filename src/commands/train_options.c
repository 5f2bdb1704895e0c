/* The command line of poseidon train: its options group by group, what their words mean, and which
 * do not go together. */
#include "commands/train_options.h"

#include "commands/commands.h"

#include <string.h>
#include <strings.h>

#include "snapshot/run_file.h"
#include "trace/trace.h"
#include "util/choice.h"
#include "util/error.h"
#include "util/units.h"

static const char *const effect_option[SIGNALS] = {"--sigint-effect", "--sighup-effect",
                                                   "--sigterm-effect", "--sigusr1-effect",
                                                   "--sigxcpu-effect"};

/* ---- words, one by one ---- */

static int parse_task(const struct train_words *w, struct trainer_options *o,
                      struct option_list *settings)
{
    if (!o->solver)
        return error_set("Need a solver definition to train: --solver=FILE");
    if (w->lars)
        settings->item[settings->n++] = "local_lr_auto=true";
    o->overrides.settings = settings->item;
    o->overrides.nsettings = settings->n;
    if (w->phase && strcasecmp(w->phase, "TRAIN"))
        return error_set("--phase=%s: training is of phase TRAIN; 'poseidon test' scores",
                         w->phase);
    return resume_parse(w->resume, &o->resume) || (o->run && run_check_name(o->run)) ? -1 : 0;
}

static int parse_endings(const struct train_words *w, struct trainer_options *o)
{
    for (int k = 0; k < SIGNALS; k++)
        if (signal_effect_parse(effect_option[k], w->effect[k], &o->signals[k]))
            return -1;
    if (deadline_find(w->time_limit, &o->deadline) ||
        (strcmp(w->stall, "none") &&
         units_parse_duration("stall-timeout", w->stall, &o->stall_timeout)) ||
        (w->every && units_parse_duration("snapshot-every", w->every, &o->snapshot_every)) ||
        on_nan_parse(w->on_nan, &o->skip_nan))
        return -1;
    if (o->max_bad < 0)
        return error_set("--max-bad=%d: expected 0 or more damaged records", o->max_bad);
    return 0;
}

static int parse_computing(const struct train_words *w, struct trainer_options *o)
{
    if (w->gpu && options_select_gpus(w->gpu, &o->engine))
        return -1;
    if (w->math && engine_math_parse(w->math, &o->math))
        return -1;
    if (w->input_shape && parse_chw(w->input_shape, o->input_chw))
        return -1;
    return engine_convolution_parse(w->convolution, &o->convolution) ||
                   sync_direct_parse(w->direct, &o->direct) ||
                   ps_update_parse(w->ps_update, &o->ps_update)
               ? -1
               : 0;
}

static int parse_communication(const struct train_words *w, struct trainer_options *o)
{
    static const char *const orders[] = {"urgency", "fifo", NULL};
    const char *comm = w->comm ? w->comm : o->staleness > 0 ? "ps" : "auto";
    int order;

    if (cost_overlap_parse(w->overlap, &o->overlap) ||
        choice_parse("order", w->order, orders, &order) ||
        comm_parse(scheme_registry, comm, &o->comm) || wire_parse(w->wire, &o->wire) ||
        hierarchy_parse(w->hierarchy, &o->hierarchy))
        return -1;
    o->fifo = order > 0;
    return 0;
}

static int parse_trace(const struct train_words *w, struct trainer_options *o)
{
    if (!w->iterations)
        return 0;
    if (!o->trace)
        return error_set("--trace-iterations chooses what --trace=FILE keeps: give that too");
    return trace_parse_iterations(w->iterations, &o->trace_first, &o->trace_last)
               ? error_context("--trace-iterations")
               : 0;
}

static int parse_words(const struct train_words *w, struct trainer_options *o,
                       struct option_list *settings)
{
    return parse_task(w, o, settings) || parse_endings(w, o) || parse_computing(w, o) ||
                   parse_communication(w, o) || parse_trace(w, o)
               ? -1
               : 0;
}

/* ---- options that do not go together ---- */

struct given {
    const char *option;
    bool is;
};

/* NULL: none of them is. */
static const char *first_given(const struct given *options, int n)
{
    for (int i = 0; i < n; i++)
        if (options[i].is)
            return options[i].option;
    return NULL;
}

/* What has a meaning only where nothing is computed, and what has none there. */
static int check_replay(const struct trainer_options *o, const struct train_words *w)
{
    const struct given replays[] = {{"profile", o->profile != NULL},
                                    {"dilate", o->dilate > 1},
                                    {"input-shape", w->input_shape != NULL}};
    const struct given trains[] = {{"weights", o->weights != NULL},
                                   {"snapshot", o->snapshot != NULL},
                                   {"resume", o->resume != RESUME_OFF}};
    bool blank = engine_is_blank(o->engine);
    const char *stray = first_given(blank ? trains : replays, 3);

    if (!stray)
        return 0;
    if (blank)
        return error_set("--engine=%s computes nothing and trains nothing: --%s does not apply",
                         o->engine, stray);
    return error_set("--%s is for --engine=replay alone; the engine is %s", stray, o->engine);
}

static int check_dry_run(const struct trainer_options *o, const struct train_words *w)
{
    const struct given reports[] = {{"json", o->json},
                                    {"summary", o->summary != NULL},
                                    {"trace", o->trace != NULL},
                                    {"log", o->log != NULL},
                                    {"csv", o->csv != NULL},
                                    {"tensorboard", o->tensorboard != NULL},
                                    {"rank-log", w->rank_log != NULL}};
    const char *stray = first_given(reports, (int)(sizeof reports / sizeof *reports));

    return o->dry_run && stray
               ? error_set("--dry-run trains nothing: there is nothing for --%s", stray)
               : 0;
}

/* What needs workers in step, with the same parameters. */
static int check_in_step(const struct trainer_options *o)
{
    const char *apart = o->staleness > 0              ? "--staleness"
                        : o->comm.policy == COMM_NONE ? "--comm=none"
                                                      : NULL;

    if (apart && o->skip_nan > 0)
        return error_set("--on-nan=skip decides for all ranks before any update: not with %s",
                         apart);
    if (apart && o->check_sync > 0)
        return error_set("--check-sync compares parameters that are kept alike: not with %s",
                         apart);
    return 0;
}

static int check_staleness(const struct trainer_options *o)
{
    if (o->staleness < 0 || o->staleness > 64)
        return error_set("--staleness=%d is out of range: 0 to 64", o->staleness);
    if (o->staleness > 0 && (o->comm.policy != COMM_SCHEME || o->comm.scheme != &scheme_ps))
        return error_set(
            "--staleness=%d needs --comm=ps: the other schemes keep all workers in step",
            o->staleness);
    if (o->staleness > 0 && o->wire != WIRE_FP32)
        return error_set("--staleness=%d and --wire=bf16 cannot be combined", o->staleness);
    return 0;
}

static int check_together(const struct trainer_options *o, const struct train_words *w)
{
    return check_replay(o, w) || check_dry_run(o, w) || check_in_step(o) || check_staleness(o) ? -1
                                                                                               : 0;
}

/* ---- the command line ---- */

static void add_training(struct train_request *r, struct option_rows *rows)
{
    struct trainer_options *o = &r->options;
    const struct option group[] = {
        {.type = OPTION_GROUP, .help = "what to train"},
        {"solver", OPTION_TEXT, &o->solver, "FILE", "the solver (Caffe's prototxt); required"},
        {"weights", OPTION_TEXT, &o->weights, "FILES",
         "start from these weights, by layer name (comma list)"},
        {"snapshot", OPTION_TEXT, &o->snapshot, "FILE", "resume from this .solverstate.h5"},
        {"resume", OPTION_WORD, &r->words.resume, "any",
         "go on from this run's newest snapshot under snapshot_prefix, if there is one; any: "
         "of whichever run"},
        {"run", OPTION_TEXT, &o->run, "NAME", "the run's name, for --resume (default: a new one)"},
        {"set", OPTION_LIST, &r->settings, "FIELD=VALUE",
         "put this in the place of the solver's field, as --set base_lr=0.02; may be repeated"},
        {"lars", OPTION_FLAG, &r->words.lars, NULL,
         "LARS: each parameter's rate follows its norm and its gradient's (local_lr_auto of the "
         "solver, by its local_gw_ratio)"},
        {"batch", OPTION_COUNT, &o->batch, "N",
         "training samples per rank and pass, instead of the net's"},
        {"global-batch", OPTION_COUNT, &o->global_batch, "N",
         "training samples per iteration over all ranks"},
        {"max-iter", OPTION_COUNT, &o->max_iter, "N", "iterations, instead of the solver's"},
        {"stop-after", OPTION_COUNT, &o->stop_after, "N",
         "end when N tests in a row found no better accuracy (or loss, where a net has none)"},
        {"snapshot-prefix", OPTION_TEXT, &o->snapshot_prefix, "PREFIX",
         "snapshots are PREFIX_iter_N..., instead of the solver's"},
        {"seed", OPTION_SEED, &o->seed, "N", "random seed, instead of the solver's"},
        {"stage", OPTION_TEXT, &o->overrides.stages, "LIST",
         "stages added to the training net's state"},
        {"level", OPTION_INT, &o->overrides.level, "N", "level of the training net's state"},
        {"phase", OPTION_TEXT, &r->words.phase, "PHASE",
         "TRAIN, the one phase that is trained (Caffe's tool has the option)"},
        {"dry-run", OPTION_FLAG, &o->dry_run, NULL,
         "set everything up, say what would be trained on which data, memory, disk and hosts, and "
         "stop: status 0 where it is fit to train"},
    };

    options_add(rows, group, (int)(sizeof group / sizeof *group));
}

static void add_endings(struct train_request *r, struct option_rows *rows)
{
    struct trainer_options *o = &r->options;
    const struct option group[] = {
        {.type = OPTION_GROUP, .help = "snapshots and signals"},
        {"sigint-effect", OPTION_TEXT, &r->words.effect[SIGNAL_INT], "EFFECT",
         "SIGINT: stop (default; writes a snapshot), snapshot or none. Under mpirun Ctrl-C leaves "
         "two seconds for it"},
        {"sighup-effect", OPTION_TEXT, &r->words.effect[SIGNAL_HUP], "EFFECT",
         "SIGHUP: snapshot (default), stop or none"},
        {"sigterm-effect", OPTION_TEXT, &r->words.effect[SIGNAL_TERM], "EFFECT",
         "SIGTERM: stop (default; writes a snapshot), snapshot or none"},
        {"sigusr1-effect", OPTION_TEXT, &r->words.effect[SIGNAL_USR1], "EFFECT",
         "SIGUSR1, forwarded by mpirun to all ranks: same effects as above"},
        {"sigxcpu-effect", OPTION_TEXT, &r->words.effect[SIGNAL_XCPU], "EFFECT",
         "SIGXCPU, which schedulers send: same effects as above"},
        {"time-limit", OPTION_TEXT, &r->words.time_limit, "DURATION",
         "stop and save before this time is over (4h, 30min, 1:30:00; none; default: the "
         "scheduler's limit)"},
        {"snapshot-every", OPTION_TEXT, &r->words.every, "DURATION",
         "write a snapshot at least this often, besides the solver's"},
        {"max-bad", OPTION_INT, &o->max_bad, "N",
         "leave out up to N damaged records of each data set and rank (an image that cannot be "
         "decoded), and say which (default 0: an error)"},
        {"on-nan", OPTION_TEXT, &r->words.on_nan, "HOW",
         "a gradient that is not finite: stop (default), or skip: leave that update out, on all "
         "ranks; skip,N: N in a row end training (default 10)"},
        {"check-sync", OPTION_COUNT, &o->check_sync, "N",
         "every N iterations, compare the ranks' parameters, bit for bit"},
        {"stall-timeout", OPTION_TEXT, &r->words.stall, "DURATION",
         "give up a rank after so long without a sign of life, and end the run with status 76 "
         "(default 5min; none: never)"},
        {"keep", OPTION_COUNT, &o->keep, "N",
         "keep the N newest snapshots of this run (default: all)"},
        {"keep-best", OPTION_TEXT, &o->keep_best, "OUTPUT",
         "save the state that tests best by this output of the test net (the least of a loss, the "
         "most of all else), and keep it besides those of --keep"},
    };

    options_add(rows, group, (int)(sizeof group / sizeof *group));
}

static void add_computing(struct train_request *r, struct option_rows *rows)
{
    struct trainer_options *o = &r->options;
    const struct option group[] = {
        {.type = OPTION_GROUP, .help = "computing"},
        {"gpu", OPTION_TEXT, &r->words.gpu, "all|LIST",
         "train on GPUs: --engine=cuda on all of each machine's, or on those of the list"},
        {"threads", OPTION_THREADS, &o->threads, "N",
         "compute threads per rank, which update on dedicated servers (default: the "
         "cores it may use; of 20 or more that are its own, all but one, which the "
         "network's thread has to itself)"},
        {"engine", OPTION_TEXT, &o->engine, "NAME",
         "engine: cpu (default), cuda, or replay (computes nothing, see --profile)"},
        {"convolution", OPTION_TEXT, &r->words.convolution, "HOW",
         "cpu: auto (default: Winograd where it was measured to be faster), direct, winograd"},
        {"no-fusion", OPTION_FLAG, &o->no_fusion, NULL,
         "compute every layer by itself, no two in one pass"},
        {"math", OPTION_TEXT, &r->words.math, "TYPE",
         "cuda: fp32, tf32 (default on A100 and later) or bf16"},
        {"deterministic", OPTION_FLAG, &o->deterministic, NULL, "cuda: the same bits at every run"},
        {"no-graphs", OPTION_FLAG, &o->no_graphs, NULL,
         "cuda: no CUDA graphs, launch every kernel by itself"},
        {"workspace", OPTION_BYTES, &o->workspace, "SIZE",
         "temporary memory of one convolution (default 1g)"},
        {"share-gpu", OPTION_FLAG, &o->share_gpu, NULL,
         "cuda: several ranks may compute on one GPU"},
        {"direct", OPTION_TEXT, &r->words.direct, "HOW",
         "cuda: MPI sends from and to the GPU's own memory: auto (default: where it can), on, off"},
        {"ps-update", OPTION_TEXT, &r->words.ps_update, "PLACE",
         "cuda: servers apply the solver on the host or the device; auto (default): measured, "
         "whichever is faster"},
        {"profile", OPTION_TEXT, &o->profile, "FILE",
         "replay: seconds per layer (poseidon time --profile writes them)"},
        {"dilate", OPTION_COUNT, &o->dilate, "K",
         "replay: divide the bytes on the network by K, and leave all else as it is"},
        {"input-shape", OPTION_TEXT, &r->words.input_shape, "C,H,W",
         "replay: input size, where neither the net nor its data gives it"},
    };

    options_add(rows, group, (int)(sizeof group / sizeof *group));
}

static void add_communication(struct train_request *r, const char *comm_words,
                              struct option_rows *rows)
{
    struct trainer_options *o = &r->options;
    const struct option group[] = {
        {.type = OPTION_GROUP, .help = "communication"},
        {"comm", OPTION_TEXT, &r->words.comm, "HOW", comm_words},
        {"cluster-file", OPTION_TEXT, &o->cluster_file, "FILE",
         "auto: keep the measured figures of this cluster there"},
        {"measure", OPTION_FLAG, &o->measure, NULL,
         "auto: measure the cluster and choose schemes anew, whatever was kept"},
        {"staleness", OPTION_INT, &o->staleness, "S",
         "ps: a worker may run S iterations ahead of the slowest (default 0)"},
        {"wire", OPTION_TEXT, &r->words.wire, "FORMAT",
         "gradients travel as fp32 (default) or bf16 with error feedback"},
        {"overlap", OPTION_TEXT, &r->words.overlap, "HOW",
         "wfbp: traffic under both passes (default); backward: under backprop alone; none"},
        {"order", OPTION_TEXT, &r->words.order, "ORDER",
         "send order: urgency (default: what forward needs first) or fifo"},
        {"window", OPTION_BYTES, &o->window, "SIZE",
         "bytes in flight, at most 1/8 of them to one rank; the rest waits by urgency; 0: no "
         "limit (default: by the measured network, else 8m)"},
        {"bandwidth-mbps", OPTION_REAL, &o->mbps, "X",
         "send no more than X Mbit/s per rank (shared clusters)"},
        {"servers", OPTION_INT, &o->servers, "K",
         "K dedicated server ranks, the last ones (default: all ranks serve)"},
        {"hierarchy", OPTION_TEXT, &r->words.hierarchy, "HOW",
         "ranks of a node add up in shared memory, or by NCCL, and their leader communicates: auto "
         "(default; where one machine has all ranks, with --comm=auto), off, N ranks a node"},
        {"leaders", OPTION_COUNT, &o->leaders, "N",
         "N ranks of a node lead it, each for its share of the parameters (default 1; all, where "
         "no other node is there)"},
        {"chunk", OPTION_BYTES, &o->chunk, "SIZE",
         "bytes of parameters, or of factors, per message (default: by the measured network, "
         "else 512k)"},
        {"merge", OPTION_BYTES, &o->merge, "SIZE",
         "send small neighbouring layers together, up to this size; 0: each alone "
         "(default: by the measured network, else 64k)"},
    };

    options_add(rows, group, (int)(sizeof group / sizeof *group));
}

static void add_reports(struct train_request *r, struct option_rows *rows)
{
    struct trainer_options *o = &r->options;
    const struct option group[] = {
        {.type = OPTION_GROUP, .help = "reports"},
        {"trace", OPTION_TEXT, &o->trace, "FILE",
         "write a timeline of all ranks, for ui.perfetto.dev"},
        {"trace-iterations", OPTION_TEXT, &r->words.iterations, "A-B",
         "keep these in the trace (default: from 0 on)"},
        {"log", OPTION_TEXT, &o->log, "FILE",
         "write a time breakdown by rank and layer, as JSON lines"},
        {"csv", OPTION_TEXT, &o->csv, "FILE",
         "write loss, learning rate and test scores by iteration, as they come; a run that goes on "
         "appends"},
        {"tensorboard", OPTION_TEXT, &o->tensorboard, "DIR",
         "write the same as TensorBoard's event files"},
        {"rank-log", OPTION_TEXT, &r->words.rank_log, "PREFIX",
         "each rank writes what it logs to PREFIX.RANK.log, too"},
        {"account", OPTION_FLAG, &o->account, NULL,
         "time each layer's transfer alone at the end, as --trace and --log do"},
        {"summary", OPTION_TEXT, &o->summary, "FILE", "write the figures of the run as JSON"},
        {"force", OPTION_FLAG, &r->force, NULL,
         "replace the files of --trace, --log, --summary and --csv where they exist, as --resume "
         "does"},
        {"json", OPTION_FLAG, &o->json, NULL,
         "print the same JSON, and nothing else, on standard output"},
    };

    options_add(rows, group, (int)(sizeof group / sizeof *group));
}

/* What stands where nothing is said. */
static void start(struct train_request *r)
{
    *r = (struct train_request){.options = {.engine = "cpu",
                                            .chunk = COST_SIZE_CHOSEN,
                                            .merge = COST_SIZE_CHOSEN,
                                            .window = COST_SIZE_CHOSEN,
                                            .seed = -1,
                                            .trace_last = INT32_MAX},
                                .words = {.wire = "fp32",
                                          .overlap = "wfbp",
                                          .order = "urgency",
                                          .convolution = "auto",
                                          .hierarchy = "auto",
                                          .direct = "auto",
                                          .ps_update = "auto",
                                          .stall = "5min",
                                          .on_nan = "stop",
                                          .effect = {"stop", "snapshot", "stop", "stop", "stop"}}};
}

int train_options_parse(int argc, char **argv, struct train_request *r)
{
    char comm_words[COMM_HELP_BYTES];
    struct option_rows rows = {.n = 0};
    struct command_line line = {
        .command = "train",
        .synopsis = "--solver=FILE [OPTIONS]",
        .example = "  mpirun -np 4 poseidon train --solver=models/lenet/solver.prototxt",
        .about =
            "Trains the net that the solver names; under mpirun -np N, N ranks share every batch.\n"
            "Each rank takes batch_size samples per pass: N ranks train like one with N times the "
            "batch."};
    int nwords, status;

    start(r);
    comm_help(scheme_registry, OPTIONS_INDENT, comm_words);
    add_training(r, &rows);
    add_endings(r, &rows);
    add_computing(r, &rows);
    add_communication(r, comm_words, &rows);
    add_reports(r, &rows);
    line.options = rows.row;
    line.noptions = rows.n;
    status = options_parse(&line, argc, argv, &nwords);
    if (status)
        return status;
    return parse_words(&r->words, &r->options, &r->settings) ||
                   check_together(&r->options, &r->words)
               ? -1
               : 0;
}
