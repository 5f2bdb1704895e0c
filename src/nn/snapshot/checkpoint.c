/* Copies a net in memory to snapshots on disk, and back. Parameters are plain arrays in Caffe's
 * shapes already, so only names and pointers need to be lined up. */
#include "snapshot/checkpoint.h"

#include "util/alloc.h"
#include "util/crc32c.h"
#include "util/file.h"
#include "util/finite.h"
#include "util/sha256.h"
#include "util/strbuf.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Returns the group that has the parameter. */
static const struct group *group_of(const struct net *net, int param)
{
    const struct group *group = net->groups;

    for (; param < group->first || param >= group->first + group->nparams; group++)
        assert(group + 1 < net->groups + net->ngroups); /* every parameter is in one group */
    return group;
}

/* Adds the layer and blob of a refused value to the error message; returns -1. */
static int blame(const struct net *net, int param, const char *what)
{
    const struct group *group = group_of(net, param);

    return error_context("layer '%s', %sblob %d", group->name, what, param - group->first);
}

/* take_values and take_history copy values into `to`, in the arenas' layout, and fail where a value
 * is not finite. to NULL: only check. learnt: skips BatchNorm's statistics. */
static int take_values(const struct net *net, float *to, bool learnt)
{
    for (int p = 0; p < net->nparams; p++)
        if (!(learnt && net->params[p].statistic) &&
            finite_copy(to ? to + net_param_begin(net, p) : NULL,
                        net_host_value(net, &net->params[p]), shape_elems(&net->params[p].shape)))
            return blame(net, p, "");
    return 0;
}

static int take_history(const struct net *net, int nhistory, float *to, const float *history)
{
    for (int b = 0; b < nhistory; b++)
        for (int p = 0; p < net->nparams; p++) {
            size_t at = (size_t)b * net->elems + net_param_begin(net, p);
            if (finite_copy(to ? to + at : NULL, history + at, shape_elems(&net->params[p].shape)))
                return blame(net, p, "history of ");
        }
    return 0;
}

int checkpoint_look(const struct net *net, bool learnt)
{
    return take_values(net, NULL, learnt);
}

int checkpoint_check_names(const struct net *net)
{
    for (int g = 0; g < net->ngroups; g++)
        for (int h = 0; h < g; h++) {
            const struct layer_def *first = net->layers[net->groups[h].layer].def;
            char line[32] = "";
            if (strcmp(net->groups[g].name, net->groups[h].name) != 0)
                continue;
            if (first->line > 0)
                snprintf(line, sizeof line, " (line %d)", first->line);
            return error_set("%s: another layer of this name%s has parameters too, and a snapshot "
                             "holds one layer of a name: rename one of them",
                             layer_def_place(net->layers[net->groups[g].layer].def).text, line);
        }
    return 0;
}

/* Returns the index of the Scale with a bias that reads the BatchNorm's output; 0: none. */
static int scale_behind(const struct net *net, const struct layer *norm)
{
    for (int l = norm->index + 1; l < net->nlayers; l++) {
        const struct layer *layer = &net->layers[l];

        if (!strcmp(layer->def->type, "Scale") && layer->nbottoms == 1 && layer->nparams == 2 &&
            !strcmp(layer->bottoms[0]->name, norm->tops[0]->name))
            return l;
    }
    return 0;
}

/* Returns the net's layers with pointers into `values` (laid out as the arena; NULL: the net's
 * own). The caller frees the array. */
static struct snapshot_layer *describe_layers(const struct net *net, float *values)
{
    struct snapshot_layer *layers = alloc_array((size_t)net->nlayers, sizeof *layers, "a snapshot");

    for (int i = 0; layers && i < net->nlayers; i++) {
        const struct layer *layer = &net->layers[i];
        layers[i].name = layer->def->name;
        layers[i].nblobs = layer->nparams;
        if (!strcmp(layer->def->type, "BatchNorm"))
            layers[i].scale = scale_behind(net, layer);
        for (int p = 0; p < layer->nparams; p++) {
            const struct param *param = layer->params[p];
            int number = net_param_number(net, i, p);
            const struct group *group = group_of(net, number);
            bool shared = group->layer != i;
            assert(!shared || group->layer < i); /* the first layer with a parameter owns it */
            layers[i].blobs[p] = (struct snapshot_blob){
                .shape = &param->shape,
                .data = values ? values + net_param_begin(net, number) : net_host_value(net, param),
                .shared = shared,
                .owner = shared ? group->name : NULL,
                .owner_blob = number - group->first};
        }
    }
    return layers;
}

/* Returns the history in Caffe's order: first all first arrays, then all second; to be freed. */
static struct snapshot_blob *describe_history(const struct net *net, int nhistory, float *history)
{
    size_t count = (size_t)nhistory * (size_t)net->nparams;
    struct snapshot_blob *blobs = alloc_array(count, sizeof *blobs, "a snapshot");

    for (int b = 0, k = 0; blobs && b < nhistory; b++)
        for (int p = 0; p < net->nparams; p++, k++)
            blobs[k] = (struct snapshot_blob){.shape = &net->params[p].shape,
                                              .data = history + (size_t)b * net->elems +
                                                      net_param_begin(net, p)};
    return blobs;
}

struct checkpoint {
    const struct net *net;     /* borrowed */
    const struct net *average; /* borrowed; NULL: no average */
    struct train_state state;
    struct snapshot_owner owner;     /* owned copy */
    struct snapshot_owner data;      /* class names and image preparation; owned */
    struct snapshot_layer *layers;   /* the net's layers, with pointers into `values` */
    struct snapshot_layer *averages; /* the average's layers, in the last block; NULL: no average */
    struct snapshot_blob *blobs;     /* blobs of all blocks, with pointers into `history` */
    int nhistory, nblobs;            /* blocks without the average; blobs of all blocks */
    float *values, *history;         /* blocks laid out as the arenas, one behind another */
};

static float *average_of(const struct checkpoint *checkpoint)
{
    return checkpoint->history + (size_t)checkpoint->nhistory * checkpoint->net->elems;
}

int checkpoint_create(const struct net *net, int nhistory, const struct net *average,
                      struct checkpoint **out)
{
    struct checkpoint *checkpoint = alloc_array(1, sizeof *checkpoint, "a snapshot");
    const int nblocks = nhistory + (average != NULL);
    size_t bytes = ((size_t)nblocks + 1) * net->elems * sizeof(float);

    *out = checkpoint;
    if (!checkpoint)
        return -1;
    checkpoint->net = net;
    checkpoint->average = average;
    checkpoint->nhistory = nhistory;
    checkpoint->nblobs = nblocks * net->nparams;
    checkpoint->values = alloc_array(1, bytes, "the copy that is saved");
    checkpoint->history = checkpoint->values ? checkpoint->values + net->elems : NULL;
    checkpoint->layers = checkpoint->values ? describe_layers(net, checkpoint->values) : NULL;
    checkpoint->blobs =
        checkpoint->layers ? describe_history(net, nblocks, checkpoint->history) : NULL;
    if (average && checkpoint->blobs)
        checkpoint->averages = describe_layers(net, average_of(checkpoint));
    if (!checkpoint->blobs || (average && !checkpoint->averages) ||
        checkpoint_describe_data(net, &checkpoint->data)) {
        checkpoint_destroy(checkpoint);
        *out = NULL;
        return -1;
    }
    memset(checkpoint->values, 0,
           bytes); /* makes the kernel map the pages now, not while training waits */
    return 0;
}

void checkpoint_destroy(struct checkpoint *checkpoint)
{
    if (!checkpoint)
        return;
    snapshot_owner_free(&checkpoint->owner);
    snapshot_owner_free(&checkpoint->data);
    free(checkpoint->values);
    free(checkpoint->layers);
    free(checkpoint->averages);
    free(checkpoint->blobs);
    free(checkpoint);
}

int64_t checkpoint_iteration(const struct checkpoint *checkpoint)
{
    return checkpoint->state.iteration;
}

int checkpoint_fill(struct checkpoint *checkpoint, const float *history,
                    const struct train_state *state, const struct snapshot_owner *owner)
{
    const struct net *net = checkpoint->net;

    assert(history || checkpoint->nhistory == 0);
    snapshot_owner_free(&checkpoint->owner);
    if (snapshot_owner_copy(owner, &checkpoint->owner))
        return -1;
    checkpoint->state = *state;
    return take_values(net, checkpoint->values, false) ||
                   take_history(net, checkpoint->nhistory, checkpoint->history, history) ||
                   (checkpoint->average &&
                    take_values(checkpoint->average, average_of(checkpoint), false))
               ? CHECKPOINT_NOT_FINITE
               : 0;
}

void checkpoint_hash(const struct net *net, bool statistics, char hex[SHA256_HEX])
{
    struct sha256 hash;

    sha256_init(&hash);
    for (int p = 0; p < net->nparams; p++)
        if (statistics || !net->params[p].statistic)
            sha256_update(&hash, net_host_value(net, &net->params[p]),
                          shape_elems(&net->params[p].shape) * sizeof(float));
    sha256_final_hex(&hash, hex);
}

/* Writes a text that identifies the parameters, equal in a state and in its model. values: laid out
 * as the net's arena. */
static void describe_parameters(const struct net *net, const float *values, int64_t iteration,
                                char text[64])
{
    uint32_t sum = 0;

    for (int p = 0; p < net->nparams; p++)
        sum = crc32c(sum, values + net_param_begin(net, p),
                     shape_elems(&net->params[p].shape) * sizeof(float));
    snprintf(text, 64, "iteration %" PRId64 ", CRC-32C %08" PRIx32, iteration, sum);
}

/* Writes a model. parameters: text of describe_parameters. */
static int write_model(const struct checkpoint *checkpoint, const char *path, char *parameters,
                       const struct snapshot_layer *layers, bool binary)
{
    const struct net *net = checkpoint->net;
    struct snapshot_owner owner = checkpoint->owner;

    owner.parameters = parameters;
    owner.classes = checkpoint->data.classes;
    owner.preparation = checkpoint->data.preparation;
    return binary ? snapshot_write_model_binary(path, &owner, net->def, layers, net->nlayers)
                  : snapshot_write_model(path, &owner, layers, net->nlayers);
}

static int write_average(const struct checkpoint *checkpoint, const char *model, bool binary,
                         struct log *log)
{
    char *path = snapshot_average_path(model), parameters[64];
    int status = -1;

    describe_parameters(checkpoint->net, average_of(checkpoint), checkpoint->state.iteration,
                        parameters);
    if (path)
        status = write_model(checkpoint, path, parameters, checkpoint->averages, binary);
    if (!status && file_sync(path))
        status = SNAPSHOT_NOT_WRITTEN;
    if (!status)
        LOG_INFO(log, "Snapshotting the average of the weights to %s", path);
    free(path);
    return status;
}

void checkpoint_drop_average(const char *model)
{
    char *path = snapshot_average_path(model);

    if (path)
        (void)unlink(path);
    free(path);
}

/* Writes the model, the average's model and the state to the given paths. */
static int write_files(const struct checkpoint *checkpoint, char *model, const char *path,
                       bool binary, struct log *log)
{
    struct train_state state = checkpoint->state;
    char parameters[64];
    const char *form = binary ? "binary proto" : "HDF5";
    struct snapshot_state file = {.iter = (int32_t)state.iteration,
                                  .current_step = state.current_step,
                                  .learned_net = model,
                                  .has_data_cursor = true,
                                  .data_cursor = state.cursor,
                                  .owner = checkpoint->owner};
    int status;

    describe_parameters(checkpoint->net, checkpoint->values, state.iteration, parameters);
    file.owner.parameters = parameters;
    file.owner.memory = state.memory; /* an empty text is not written */
    file.owner.residuals = state.residuals;
    status = write_model(checkpoint, model, parameters, checkpoint->layers, binary);
    if (status)
        return status;
    if (checkpoint->average)
        status = write_average(checkpoint, model, binary, log);
    if (!status)
        status =
            binary ? snapshot_write_state_binary(path, &file, checkpoint->blobs, checkpoint->nblobs)
                   : snapshot_write_state(path, &file, checkpoint->blobs, checkpoint->nblobs);
    /* A run that is killed before the files are on the disk resumes from them all the same. After a
     * power failure their checksums show whether they are whole. */
    if (!status && (file_sync(model) || file_sync(path))) {
        unlink(path);
        status = SNAPSHOT_NOT_WRITTEN;
    }
    if (status) {
        if (access(path, F_OK) != 0) { /* a model without its state is useless, and takes room */
            unlink(model);
            checkpoint_drop_average(model);
        }
        return status;
    }
    /* Caffe logs these lines before it writes; here, the files exist when the lines appear */
    LOG_INFO(log, "Snapshotting to %s file %s", form, model);
    LOG_INFO(log, "Snapshotting solver state to %s file %s", form, path);
    return 0;
}

int checkpoint_write(const struct checkpoint *checkpoint, const char *prefix, bool binary,
                     struct log *log)
{
    int64_t iteration = checkpoint->state.iteration;
    char *model = snapshot_model_path(prefix, iteration, binary);
    char *path = snapshot_state_path(prefix, iteration, binary);
    int status = model && path ? write_files(checkpoint, model, path, binary, log)
                               : error_memory(strlen(prefix), "a snapshot's name");

    if (!status && !checkpoint->state.residuals[0]) /* left by an earlier snapshot */
        checkpoint_drop_residuals(prefix, iteration, NULL);
    if (!status && !checkpoint->average)
        checkpoint_drop_average(model);
    free(model);
    free(path);
    return status == SNAPSHOT_NOT_WRITTEN ? CHECKPOINT_NOT_WRITTEN : status ? -1 : 0;
}

int checkpoint_write_residuals(const struct net *net, const char *prefix, char *run,
                               const struct train_state *state, int number, float *arena)
{
    char *model = snapshot_model_path(prefix, state->iteration, true);
    char *path = model ? snapshot_residuals_path(model, number) : NULL;
    struct snapshot_blob *blobs = describe_history(net, 1, arena);
    struct snapshot_state file = {
        .iter = (int32_t)state->iteration, .learned_net = model, .owner.run = run};
    int status = path && blobs ? snapshot_write_state_binary(path, &file, blobs, net->nparams) : -1;

    status = error_status(status || file_sync(path));
    free(blobs);
    free(path);
    free(model);
    return status;
}

void checkpoint_drop_residuals(const char *prefix, int64_t iteration, const char *state)
{
    char *model = snapshot_model_path(prefix, iteration, true), *path = NULL;

    if (model && (!state || access(state, F_OK) != 0))
        for (int i = 0; (path = snapshot_residuals_path(model, i)) && unlink(path) == 0; i++)
            free(path);
    free(path);
    free(model);
}

static bool is_missing(const struct snapshot_report *report, const char *name)
{
    for (int i = 0; i < report->nmissing; i++)
        if (strcmp(report->missing[i], name) == 0)
            return true;
    return false;
}

/* Blames divergence for values that are not finite: earlier versions saved such snapshots. */
static int diverged(const char *path)
{
    return error_context("%s: training had diverged; use an earlier snapshot", path);
}

/* Checks that the model read into the net belongs to the state: same run, same parameters as saved
 * with the state. Properties that a file lacks are not compared. */
static int check_pair(const char *path, const struct snapshot_owner *model,
                      const struct snapshot_state *state)
{
    const char *run = state->owner.run, *wanted = state->owner.parameters;

    if (run && model->run && strcmp(run, model->run))
        return error_set(
            "%s: the model is from run '%s', but its state from run '%s': one file was overwritten",
            path, model->run, run);
    if (!wanted || (model->parameters && !strcmp(wanted, model->parameters)))
        return 0;
    return error_set("%s: the model has the parameters of %s, but its state belongs to %s: one "
                     "file was overwritten, renamed or changed; --weights takes the model alone",
                     path, model->parameters ? model->parameters : "an unknown iteration", wanted);
}

/* Reads a model into the net. state: the state that names the model, or NULL. all: as in
 * checkpoint_load_weights. found: set for layers that the file has parameters for; may be NULL. */
static int read_model(const char *path, const struct snapshot_state *state, bool all,
                      struct net *net, bool *found, struct log *log)
{
    struct snapshot_layer *layers = describe_layers(net, NULL);
    struct snapshot_report report = {0};
    int status = layers ? snapshot_read_model(path, layers, net->nlayers, &report) : -1;

    free(layers);
    if (!status && checkpoint_look(net, false))
        status = diverged(path);
    if (!status && net_compare_classes(net, path, report.owner.classes)) {
        status = state || all ? -1 : 0;
        if (!status)
            LOG_WARNING(log, "%s", error_text());
    }
    if (!status && state)
        status = check_pair(path, &report.owner, state);
    for (int i = 0; i < report.nignored && !status; i++)
        LOG_INFO(log, "Ignoring source layer %s", report.ignored[i]);
    for (int i = 0; i < report.nmissing && !status; i++)
        LOG_WARNING(log, "Layer %s is not in %s: it keeps its initial values", report.missing[i],
                    path);
    for (int l = 0; found && !status && l < net->nlayers; l++)
        found[l] |= net->layers[l].nparams > 0 && !is_missing(&report, net->layers[l].def->name);
    snapshot_report_free(&report);
    return status;
}

/* Checks that a state's residuals files are undamaged, and of the state's run and iteration. */
static int check_residuals(const char *model, const struct snapshot_state *state)
{
    int count = state->owner.residuals ? atoi(state->owner.residuals) : 0, status = 0;
    const char *run = state->owner.run ? state->owner.run : "unknown";

    for (int i = 0; i < count && !status; i++) {
        char *path = snapshot_residuals_path(model, i);
        struct snapshot_state found = {.iter = 0};

        status = path ? snapshot_peek_state(path, &found) : -1;
        if (!status &&
            (found.iter != state->iter || !found.owner.run || strcmp(found.owner.run, run)))
            status = error_set(
                "%s: found iteration %d of run '%s'; expected iteration %d of run '%s'", path,
                found.iter, found.owner.run ? found.owner.run : "unknown", state->iter, run);
        snapshot_state_free(&found);
        free(path);
    }
    return status ? error_context("its residuals") : 0;
}

int checkpoint_read_residuals(const struct net *net, const char *model, int number, float *arena)
{
    char *path = snapshot_residuals_path(model, number);
    struct snapshot_blob *blobs = describe_history(net, 1, arena);
    struct snapshot_state state = {.iter = 0};
    int status = path && blobs ? snapshot_read_state(path, &state, blobs, net->nparams) : -1;

    snapshot_state_free(&state);
    free(blobs);
    free(path);
    return status;
}

int checkpoint_resume(const char *path, struct net *net, int nhistory, float *history,
                      struct train_state *state, char **model, struct log *log)
{
    struct snapshot_blob *blobs = describe_history(net, nhistory, history);
    struct snapshot_state file = {.iter = 0};
    int status = -1;

    *model = NULL;
    LOG_INFO(log, "Resuming from %s", path);
    if (!blobs || snapshot_read_state(path, &file, blobs, nhistory * net->nparams))
        goto done;
    if (snapshot_find_model(path, file.learned_net, model) ||
        read_model(*model, &file, true, net, NULL, log) || check_residuals(*model, &file))
        goto done;
    if (take_history(net, nhistory, NULL, history)) {
        diverged(path);
        goto done;
    }
    LOG_INFO(log, "SGDSolver: restoring history");
    state->iteration = file.iter;
    state->current_step = file.current_step;
    state->cursor = file.has_data_cursor ? file.data_cursor : 0;
    snprintf(state->memory, sizeof state->memory, "%s", file.owner.memory ? file.owner.memory : "");
    snprintf(state->residuals, sizeof state->residuals, "%s",
             file.owner.residuals ? file.owner.residuals : "");
    if (!file.has_data_cursor)
        LOG_WARNING(
            log, "%s does not say how far training had read the data: starting at the first record",
            path);
    status = 0;
done:
    snapshot_state_free(&file);
    if (status) {
        free(*model);
        *model = NULL;
    }
    free(blobs);
    return status;
}

/* Refuses weights that have no layer of the net or, if `all` is set, lack a layer. */
static int check_found(const char *list, const struct net *net, const bool *found, bool all)
{
    int missing = 0, have = 0, first = -1;

    for (int l = 0; l < net->nlayers; l++)
        if (net->layers[l].nparams > 0 && !found[l]) {
            first = first < 0 ? l : first;
            missing++;
        } else if (net->layers[l].nparams > 0) {
            have++;
        }
    if (missing == 0 || (have > 0 && !all))
        return 0;
    if (have == 0)
        return error_set("%s: holds no layer named as one of the net's %d layer%s with parameters; "
                         "expected weights of this net",
                         list, missing, missing == 1 ? "" : "s");
    return error_set("%s: has no layer '%s'%s, so its parameters would be random; expected weights "
                     "for every layer",
                     list, net->layers[first].def->name, missing > 1 ? ", among others," : "");
}

int checkpoint_load_weights(const char *list, bool all, struct net *net, struct log *log)
{
    char **paths;
    int npaths, status = alloc_split(&paths, &npaths, list, "the list of weights");
    bool *found = alloc_array((size_t)net->nlayers, sizeof *found, "the list of weights");

    status = error_status(status || !found);
    for (int i = 0; i < npaths && !status; i++) {
        LOG_INFO(log, net->train ? "Finetuning from %s" : "Loading weights from %s", paths[i]);
        status = read_model(paths[i], NULL, all, net, found, log);
    }
    if (!status)
        status = check_found(list, net, found, all);
    free(found);
    alloc_free_list(paths, npaths);
    return status;
}
