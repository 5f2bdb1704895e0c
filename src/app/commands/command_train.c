/* poseidon train: from the command line to the exit status. */
#include "commands/commands.h"
#include "commands/output_guard.h"
#include "report/curves.h"
#include "commands/train_options.h"

#include <stdio.h>
#include <stdlib.h>

#include "forecast/profiles.h"
#include "loop/trainer.h"
#include "spec/read.h"
#include "util/agree.h"
#include "util/error.h"
#include "util/path.h"
#include "util/watchdog.h"
#include "util/json.h"
#include "watch/signals.h"

/* Finds the net that the solver names. The caller frees *net; NULL: no net is named. */
static int find_net(const struct trainer_options *o, char **net)
{
    struct text_doc *doc = NULL;
    const char *named;
    int status = 0;

    *net = NULL;
    if (spec_read_solver_with(o->solver, &o->overrides, &doc))
        return -1;
    named = spec_solver(doc)->net ? spec_solver(doc)->net : spec_solver(doc)->train_net;
    if (named && !(*net = path_find(named, o->solver, NULL)))
        status = -1;
    text_free(doc);
    return status;
}

/* Finds the file of --tune=profile. If the option names a device, the file is poseidon's profile of
 * this net on that device, and the batch size becomes the profile's. The caller frees *file. */
static int find_profile(struct trainer_options *o, char **file)
{
    int batch = o->batch;
    char *net;

    *file = NULL;
    if (!o->profile || !engine_is_blank(o->engine))
        return 0;
    if (find_net(o, &net) || profiles_find(o->profile, net ? net : o->solver, file, &batch)) {
        free(net);
        return -1;
    }
    free(net);
    o->profile = *file;
    if (!o->global_batch)
        o->batch = batch;
    return 0;
}

/* Fails if a file that training writes, other than snapshots, exists or is an input such as the
 * net. A resumed run may replace its own files. */
static int check_outputs(const struct trainer_options *o, bool force)
{
    const char *const outputs[] = {o->summary, o->trace, o->log, o->csv};
    char *net;
    int status;

    if (o->tensorboard && !force && !o->resume && curves_check_folder(o->tensorboard))
        return -1;
    if (!o->summary && !o->trace && !o->log && !o->csv)
        return 0;
    if (find_net(o, &net))
        return -1;
    const char *const inputs[] = {o->solver,   net,        o->weights,
                                  o->snapshot, o->profile, o->exchange.cluster_file};
    status = output_check_all(4, outputs, force || o->resume, 6, inputs);
    free(net);
    return status;
}

static int report(struct trainer *trainer, const struct trainer_options *o)
{
    struct json json = {.depth = 0};
    int status = 0;

    trainer_summary(trainer, &json);
    if (o->summary)
        status = json_write_file(&json, o->summary);
    if (o->json && !status)
        status = json_print(&json, stdout);
    json_free(&json);
    return status ? status : trainer_end(trainer);
}

/* Prints rank 0's findings; obstacles come last, as the error message. Collective. */
static int dry_run(struct trainer *trainer, int rank)
{
    struct strbuf text = {.data = NULL};
    int status = trainer_dry_run(trainer, &text);

    if (rank == 0)
        printf("\n%s%s", strbuf_text(&text), status ? "" : "verdict     ready to train\n");
    strbuf_free(&text);
    return status;
}

int command_train(int argc, char **argv)
{
    struct train_request request;
    const struct trainer_options *options = &request.options;
    struct watchdog_options watch = {
        .command = "train",
        .status = TRAINER_LOST,
        .advice = "--resume continues the run, and --stall-timeout gives more time"};
    char *profile = NULL;
    struct trainer *trainer = NULL;
    struct log log;
    bool trains, in_flight = false;
    int status, rank = 0, ending = 0;

    status = train_options_parse(argc, argv, &request);
    watch.silence_seconds = wire_silence(options->exchange.stall_timeout);
    watch.lost_seconds = options->exchange.stall_timeout;
    if (!status)
        status = find_profile(&request.options, &profile);
    if (!status)
        status = signals_catch(options->signals);
    if (!command_start(&argc, &argv, &status, &request.alike, &watch)) {
        strbuf_free(&request.run);
        free(profile);
        return status;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    log_init(&log, rank == 0, stderr);
    status = error_agree(MPI_COMM_WORLD, rank == 0 ? check_outputs(options, request.force) : 0);
    if (!status)
        status = trainer_create(MPI_COMM_WORLD, options, &log, &trainer);
    if (!status && options->dry_run)
        status = dry_run(trainer, rank);
    trains = !status && !options->dry_run && !trainer_is_finished(trainer);
    if (trains) {
        status = trainer_run(trainer);
        in_flight = status != 0;
    }
    if (trains && !status)
        status = error_agree(MPI_COMM_WORLD, rank == 0 ? report(trainer, options) : 0);
    if (trains && !status && rank == 0) /* other ranks' status would only make the launcher print */
        ending = trainer_exit_status(trainer);
    if (!in_flight) {
        trainer_destroy(trainer);
        strbuf_free(&request.run);
        free(profile);
    }
    return command_end_mpi("train", status, in_flight) ? 1 : ending;
}
