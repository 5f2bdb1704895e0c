/* Common parts of both forms of snapshots: names of files, recognising a file's form, and checks
 * that hold for any model. */
#include "snapshot/snapshot_internal.h"

#include "util/alloc.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "util/path.h"
#include "util/strbuf.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- names of files ---- */

#define MODEL ".caffemodel"

static char *path_of_iteration(const char *prefix, int64_t iter, const char *ending, bool binary)
{
    struct strbuf path = {0};

    if (iter == SNAPSHOT_BEST)
        strbuf_printf(&path, "%s_best", prefix);
    else
        strbuf_printf(&path, "%s_iter_%" PRId64, prefix, iter);
    strbuf_printf(&path, "%s%s", ending, binary ? "" : ".h5");
    return strbuf_take(&path);
}

char *snapshot_model_path(const char *prefix, int64_t iter, bool binary)
{
    return path_of_iteration(prefix, iter, MODEL, binary);
}

char *snapshot_state_path(const char *prefix, int64_t iter, bool binary)
{
    return path_of_iteration(prefix, iter, ".solverstate", binary);
}

char *snapshot_average_path(const char *model_path)
{
    const char *ending = strstr(model_path, MODEL), *next;
    struct strbuf path = {0};

    assert(ending);
    while ((next = strstr(ending + 1, MODEL)))
        ending = next;
    strbuf_printf(&path, "%.*s.average%s", (int)(ending - model_path), model_path, ending);
    return strbuf_take(&path);
}

char *snapshot_residuals_path(const char *model_path, int number)
{
    struct strbuf path = {0};
    const char *end = model_path + strlen(model_path);

    for (const char *at = strstr(model_path, MODEL); at; at = strstr(at + 1, MODEL))
        end = at;
    strbuf_append(&path, model_path, (size_t)(end - model_path));
    strbuf_printf(&path, ".residuals.%d", number);
    return strbuf_take(&path);
}

int snapshot_probe(const char *prefix)
{
    char *path = path_of_iteration(prefix, 0, ".tempfile", true);
    int status = path ? 0 : -1;

    if (path && file_probe(path))
        status = error_set("Cannot write to snapshot prefix '%s'.  Make sure that the directory "
                           "exists and is writable. (%s: %s)",
                           prefix, path, strerror(errno));
    free(path);
    return status;
}

int snapshot_find_model(const char *state_path, const char *learned_net, char **model)
{
    char folder[1024];
    bool found;

    *model = path_find(learned_net, NULL, &found);
    if (*model && !found) {
        free(*model);
        *model = path_find(path_base(learned_net), state_path, &found);
    }
    if (!*model || found)
        return *model ? 0 : -1;
    free(*model);
    *model = path_beside(path_base(learned_net), state_path);
    if (*model)
        error_set("%s: its model is missing: there is neither '%s' (from the current folder %s) "
                  "nor, beside the state, '%s'",
                  state_path, learned_net, getcwd(folder, sizeof folder) ? folder : "unknown",
                  *model);
    free(*model);
    *model = NULL;
    return -1;
}

/* ---- reading in either form ---- */

/* Returns true if a file is to be read in Caffe's binary form: it exists, and is not HDF5. */
static bool is_binary(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && !file_is_hdf5(path);
}

int snapshot_find_blob(const struct snapshot_source *source, int layer, int blob,
                       struct stored_blob *out)
{
    const struct stored_layer *from = &source->layers[layer == SNAPSHOT_HISTORY ? 0 : layer];

    assert(blob >= 0 && (layer == SNAPSHOT_HISTORY || (layer >= 0 && layer < source->nlayers)));
    if (source->find)
        return source->find(source->context, layer, blob, out);
    if (blob >= from->nblobs || from->blobs[blob].end == 0)
        return 1;
    *out = from->blobs[blob];
    return 0;
}

int snapshot_open(const char *path, struct snapshot_source *out)
{
    if (path_ends(path, ".safetensors") && access(path, F_OK) == 0)
        return error_set("%s: expected .caffemodel or .caffemodel.h5: 'python3 tools/weights.py %s "
                         "%.*s.caffemodel.h5' makes a model of a .safetensors file",
                         path, path, (int)(strlen(path) - strlen(".safetensors")), path);
    return is_binary(path) ? snapshot_open_binary(path, out) : snapshot_open_hdf5(path, out);
}

void snapshot_close(struct snapshot_source *source)
{
    if (source->close)
        source->close(source->context);
    snapshot_owner_free(&source->owner);
}

struct snapshot_owner snapshot_take_owner(struct snapshot_source *source)
{
    struct snapshot_owner owner = source->owner;

    source->owner = (struct snapshot_owner){.run = NULL};
    return owner;
}

int snapshot_read_model(const char *path, const struct snapshot_layer *layers, int nlayers,
                        struct snapshot_report *report)
{
    struct snapshot_source source = {.path = path};
    struct snapshot_report found = {0};
    int status = snapshot_open(path, &source);

    if (!status)
        status = snapshot_load_model(&source, layers, nlayers, &found);
    found.owner = snapshot_take_owner(&source);
    snapshot_close(&source);
    if (status || !report)
        snapshot_report_free(&found);
    if (report)
        *report = found;
    return status;
}

int snapshot_read_owner(const char *path, struct snapshot_owner *owner)
{
    struct snapshot_source source = {.path = path};
    int status = snapshot_open(path, &source);

    *owner = snapshot_take_owner(&source);
    snapshot_close(&source);
    return status;
}

int snapshot_read_state(const char *path, struct snapshot_state *state,
                        const struct snapshot_blob *history, int nhistory)
{
    int status;

    *state = (struct snapshot_state){0};
    status = is_binary(path) ? snapshot_read_state_binary(path, state, history, nhistory)
                             : snapshot_read_state_hdf5(path, state, history, nhistory);
    if (status)
        snapshot_state_free(state);
    return status;
}

int snapshot_peek_state(const char *path, struct snapshot_state *state)
{
    return snapshot_read_state(path, state, NULL, SNAPSHOT_PEEK);
}

void snapshot_state_free(struct snapshot_state *state)
{
    free(state->learned_net);
    snapshot_owner_free(&state->owner);
    *state = (struct snapshot_state){0};
}

/* ---- texts of models and states ---- */

const struct snapshot_text snapshot_texts[SNAPSHOT_TEXTS] = {
    {"run", STATE_RUN, true, offsetof(struct snapshot_owner, run)},
    {"parameters", STATE_PARAMETERS, true, offsetof(struct snapshot_owner, parameters)},
    {"classes", MODEL_CLASSES, false, offsetof(struct snapshot_owner, classes)},
    {"preprocessing", MODEL_PREPARATION, false, offsetof(struct snapshot_owner, preparation)},
    {"solver_type", STATE_RULE, true, offsetof(struct snapshot_owner, rule)},
    {"run_digest", STATE_DIGEST, true, offsetof(struct snapshot_owner, digest)},
    {"plan", STATE_PLAN, true, offsetof(struct snapshot_owner, plan)},
    {"memory", STATE_MEMORY, true, offsetof(struct snapshot_owner, memory)},
    {"residuals", STATE_OWED, true, offsetof(struct snapshot_owner, residuals)},
};

char **snapshot_text_in(struct snapshot_owner *owner, int i)
{
    return (char **)(void *)((char *)owner + snapshot_texts[i].place);
}

const char *snapshot_text_of(const struct snapshot_owner *owner, int i)
{
    return owner ? *(char *const *)(const void *)((const char *)owner + snapshot_texts[i].place)
                 : NULL;
}

/* ---- layers and reports ---- */

int snapshot_owned_blobs(const struct snapshot_layer *layer)
{
    int owned = 0;

    for (int i = 0; i < layer->nblobs; i++)
        owned += !layer->blobs[i].shared;
    return owned;
}

int snapshot_check_names(const char *path, const struct snapshot_layer *layers, int nlayers)
{
    for (int i = 0; i < nlayers; i++)
        for (int j = 0; j < i && snapshot_owned_blobs(&layers[i]) > 0; j++)
            if (snapshot_owned_blobs(&layers[j]) > 0 && strcmp(layers[i].name, layers[j].name) == 0)
                return error_set("%s: two layers named '%s' have parameters; a snapshot holds one "
                                 "layer of a name, rename the other",
                                 path, layers[i].name);
    return 0;
}

int snapshot_copy_text(const char *text, char **out)
{
    *out = NULL;
    return text ? alloc_text(out, text, "a text") : 0;
}

int snapshot_owner_copy(const struct snapshot_owner *from, struct snapshot_owner *out)
{
    int status = 0;

    *out = (struct snapshot_owner){.global_batch = from->global_batch};
    for (int i = 0; i < SNAPSHOT_TEXTS && !status; i++)
        status = snapshot_copy_text(snapshot_text_of(from, i), snapshot_text_in(out, i));
    return status;
}

void snapshot_owner_free(struct snapshot_owner *owner)
{
    for (int i = 0; i < SNAPSHOT_TEXTS; i++)
        free(*snapshot_text_in(owner, i));
    *owner = (struct snapshot_owner){.run = NULL};
}

void snapshot_report_free(struct snapshot_report *report)
{
    alloc_free_list(report->ignored, report->nignored);
    alloc_free_list(report->missing, report->nmissing);
    snapshot_owner_free(&report->owner);
    *report = (struct snapshot_report){0};
}
