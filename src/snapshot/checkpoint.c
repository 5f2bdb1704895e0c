/* Between a net in memory and a snapshot on disk. Parameters are plain arrays in Caffe's shapes
 * already, so this only lines up names and pointers. */
#include "snapshot/checkpoint.h"

#include "snapshot/snapshot.h"
#include "util/error.h"
#include "util/sha256.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The layer that owns this parameter. */
static int owner_of(const struct net *net, int param)
{
    for (int g = 0; g < net->ngroups; g++)
        if (param >= net->groups[g].first && param < net->groups[g].first + net->groups[g].nparams)
            return net->groups[g].layer;
    return -1;
}

/* All layers of the net with pointers into its values; to be freed. */
static struct snapshot_layer *describe_layers(const struct net *net)
{
    struct snapshot_layer *layers = calloc((size_t)net->nlayers + 1, sizeof *layers);

    for (int i = 0; layers && i < net->nlayers; i++) {
        const struct layer *layer = &net->layers[i];
        layers[i].name = layer->def->name;
        layers[i].nblobs = layer->nparams;
        for (int p = 0; p < layer->nparams; p++) {
            const struct param *param = layer->params[p];
            layers[i].blobs[p] =
                (struct snapshot_blob){.shape = &param->shape,
                                       .data = net_host_value(net, param),
                                       .shared = owner_of(net, (int)(param - net->params)) != i};
        }
    }
    if (!layers)
        error_memory((size_t)net->nlayers * sizeof *layers, "a snapshot");
    return layers;
}

/* History in Caffe's order: all first arrays, then all second ones; to be freed. */
static struct snapshot_blob *describe_history(const struct net *net, int nhistory, float *history)
{
    size_t count = (size_t)nhistory * (size_t)net->nparams;
    struct snapshot_blob *blobs = calloc(count + 1, sizeof *blobs);

    for (int b = 0, k = 0; blobs && b < nhistory; b++)
        for (int p = 0; p < net->nparams; p++, k++)
            blobs[k] = (struct snapshot_blob){.shape = &net->params[p].shape,
                                              .data = history + (size_t)b * net->elems +
                                                      net_param_begin(net, p)};
    if (!blobs)
        error_memory(count * sizeof *blobs, "a snapshot");
    return blobs;
}

int checkpoint_write(const char *prefix, bool binary, const struct net *net, int nhistory,
                     const float *history, const struct train_state *state, struct log *log)
{
    char *model = binary ? snapshot_model_path_binary(prefix, state->iteration)
                         : snapshot_model_path(prefix, state->iteration);
    char *path = binary ? snapshot_state_path_binary(prefix, state->iteration)
                        : snapshot_state_path(prefix, state->iteration);
    const char *form = binary ? "binary proto" : "HDF5";
    struct snapshot_layer *layers = describe_layers(net);
    /* the writer only reads; one description serves both ways */
    struct snapshot_blob *blobs = describe_history(net, nhistory, (float *)(uintptr_t)history);
    struct snapshot_state file = {.iter = (int32_t)state->iteration,
                                  .current_step = state->current_step,
                                  .learned_net = model,
                                  .has_data_cursor = true,
                                  .data_cursor = state->cursor};
    int status = -1;

    if (!model || !path)
        error_memory(0, "a snapshot's name");
    if (!model || !path || !layers || !blobs)
        goto done;
    LOG_INFO(log, "Snapshotting to %s file %s", form, model);
    if (binary && net->nlearnable > (size_t)INT32_MAX / sizeof(float))
        LOG_WARNING(log,
                    "%s exceeds 2 GB, more than Caffe and other programs take; "
                    "snapshot_format: HDF5 has no such limit",
                    model);
    if (binary ? snapshot_write_model_binary(model, net->def, layers, net->nlayers)
               : snapshot_write_model(model, layers, net->nlayers))
        goto done;
    LOG_INFO(log, "Snapshotting solver state to %s file %s", form, path);
    status = binary ? snapshot_write_state_binary(path, &file, blobs, nhistory * net->nparams)
                    : snapshot_write_state(path, &file, blobs, nhistory * net->nparams);
done:
    free(model);
    free(path);
    free(layers);
    free(blobs);
    return status;
}

static bool is_missing(const struct snapshot_report *report, const char *name)
{
    for (int i = 0; i < report->nmissing; i++)
        if (strcmp(report->missing[i], name) == 0)
            return true;
    return false;
}

/* found: per layer of the net, set where the file has its parameters; NULL: nobody asks. */
static int read_model(const char *path, struct net *net, bool *found, struct log *log)
{
    struct snapshot_layer *layers = describe_layers(net);
    struct snapshot_report report;

    if (!layers || snapshot_read_model(path, layers, net->nlayers, &report)) {
        free(layers);
        return -1;
    }
    free(layers);
    for (int i = 0; i < report.nignored; i++)
        LOG_INFO(log, "Ignoring source layer %s", report.ignored[i]);
    for (int i = 0; i < report.nmissing; i++)
        LOG_WARNING(log, "Layer %s is not in %s: it keeps its initial values", report.missing[i],
                    path);
    for (int l = 0; found && l < net->nlayers; l++)
        found[l] |= net->layers[l].nparams > 0 && !is_missing(&report, net->layers[l].def->name);
    snapshot_report_free(&report);
    return 0;
}

int checkpoint_resume(const char *path, struct net *net, int nhistory, float *history,
                      struct train_state *state, struct log *log)
{
    struct snapshot_blob *blobs = describe_history(net, nhistory, history);
    struct snapshot_state file = {.iter = 0};
    char *model = NULL;
    int status = -1;

    LOG_INFO(log, "Resuming from %s", path);
    if (!blobs || snapshot_read_state(path, &file, blobs, nhistory * net->nparams))
        goto done;
    if (snapshot_find_model(path, file.learned_net, &model) || read_model(model, net, NULL, log))
        goto done;
    LOG_INFO(log, "SGDSolver: restoring history");
    state->iteration = file.iter;
    state->current_step = file.current_step;
    state->cursor = file.has_data_cursor ? file.data_cursor : 0;
    if (!file.has_data_cursor)
        LOG_WARNING(log, "%s does not say how far training had read: starting at the first record",
                    path);
    status = 0;
done:
    snapshot_state_free(&file);
    free(model);
    free(blobs);
    return status;
}

/* N of NAME_iter_N.solverstate or .solverstate.h5; -1: it is no such file. */
static int64_t iteration_of(const char *file, const char *name)
{
    size_t length = strlen(name);
    char *end;
    long long iteration;

    if (strncmp(file, name, length) || strncmp(file + length, "_iter_", 6))
        return -1;
    file += length + 6;
    if (*file < '0' || *file > '9')
        return -1;
    errno = 0;
    iteration = strtoll(file, &end, 10);
    return errno || (strcmp(end, ".solverstate") && strcmp(end, ".solverstate.h5")) ? -1
                                                                                    : iteration;
}

int checkpoint_newest(const char *prefix, char **path)
{
    const char *slash = strrchr(prefix, '/'), *name = slash ? slash + 1 : prefix;
    char *folder = slash ? strndup(prefix, (size_t)(name - prefix)) : strdup("./"), *newest = NULL;
    DIR *dir = folder ? opendir(folder) : NULL;
    int64_t most = -1;
    int status = -1;

    *path = NULL;
    if (!dir) {
        if (folder)
            error_set("cannot look for snapshots in '%s': %s", folder, strerror(errno));
        else
            error_memory(strlen(prefix), "a snapshot's name");
        goto done;
    }
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        int64_t iteration = iteration_of(entry->d_name, name);
        if (iteration <= most)
            continue;
        most = iteration;
        free(newest);
        newest = strdup(entry->d_name);
    }
    closedir(dir);
    status = 0;
    if (most < 0)
        goto done;
    *path = newest ? malloc(strlen(folder) + strlen(newest) + 1) : NULL;
    if (*path)
        sprintf(*path, "%s%s", slash ? folder : "", newest);
    else
        status = error_memory(strlen(prefix), "a snapshot's name");
done:
    free(newest);
    free(folder);
    return status;
}

/* Weights that have nothing, or not all that is needed, are those of another net. */
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
        return error_set("%s: none of the net's %d layer%s with parameters is there, by name; "
                         "expected the weights of this net",
                         list, missing, missing == 1 ? "" : "s");
    return error_set("%s: layer '%s'%s is not there, by name, and its parameters would be random; "
                     "expected weights for every layer",
                     list, net->layers[first].def->name, missing > 1 ? ", among others," : "");
}

int checkpoint_load_weights(const char *list, bool all, struct net *net, struct log *log)
{
    char *copy = strdup(list), *rest = copy, *path;
    bool *found = calloc((size_t)net->nlayers + 1, sizeof *found);
    int status = copy && found ? 0 : error_memory(strlen(list), "the list of weights");

    while (!status && (path = strsep(&rest, ",")) != NULL) {
        if (!*path)
            continue;
        LOG_INFO(log, "Finetuning from %s", path);
        status = read_model(path, net, found, log);
    }
    if (!status)
        status = check_found(list, net, found, all);
    free(found);
    free(copy);
    return status;
}

void checkpoint_hash(const struct net *net, char hex[65])
{
    struct sha256 hash;

    sha256_init(&hash);
    for (int p = 0; p < net->nparams; p++)
        sha256_update(&hash, net_host_value(net, &net->params[p]),
                      shape_elems(&net->params[p].shape) * sizeof(float));
    sha256_final_hex(&hash, hex);
}
