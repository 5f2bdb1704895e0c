/* Reading HDF5 models and states: first everything is compared with the net, then values are read.
 */
#include "snapshot/snapshot_internal.h"

#include "snapshot/checksum.h"
#include "snapshot/weights_internal.h"
#include "util/error.h"
#include "util/h5.h"
#include "util/strbuf.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define MAX_NESTING 16 /* of groups, against files whose groups contain themselves */

/* Whether the file has a link of that name at its top. */
static bool has_link(hid_t file, const char *name)
{
    return H5Lexists(file, name, H5P_DEFAULT) > 0;
}

/* The shape of a data set as a shape of ours; sizes that no blob can have become an error. */
static int shape_of_dataset(const struct h5_dataset *dataset, struct shape *shape)
{
    int64_t dim[H5S_MAX_RANK];
    char what[512];

    for (int i = 0; i < dataset->naxes; i++)
        dim[i] = (int64_t)dataset->dim[i];
    snprintf(what, sizeof what, "%s: data set '%s'", dataset->path, dataset->name);
    return shape_set(shape, dataset->naxes, dim, what);
}

/* Opens the data set `name` for a blob. Where it has another shape, fails with *mismatch and *found
 * set and no message: the caller has Caffe's sentence for its case. */
static int open_blob(hid_t file, const char *path, const char *name,
                     const struct snapshot_blob *blob, struct h5_dataset *dataset,
                     struct shape *found, bool *mismatch)
{
    *mismatch = false;
    if (h5_dataset_open(file, path, name, dataset))
        return -1;
    if (shape_of_dataset(dataset, found) == 0) {
        *mismatch = !shape_equal(found, blob->shape);
        if (!*mismatch)
            return 0;
    }
    h5_dataset_close(dataset);
    return -1;
}

/* ---- models ---- */

/* A layer as the file has it. */
struct source {
    char *name; /* path below `data` */
    int nblobs; /* data sets in its group */
    bool used;
};

struct sources {
    struct source *list;
    int count, capacity;
    int failed;
};

/* One level of the walk over the groups below `data`. */
struct walk {
    struct sources *sources;
    const char *prefix; /* path of this group below `data`, "" at the top */
    int depth;
    int ndatasets, ngroups; /* its children */
};

static void sources_free(struct sources *sources)
{
    for (int i = 0; i < sources->count; i++)
        free(sources->list[i].name);
    free(sources->list);
}

static int sources_add(struct sources *sources, const char *name, int nblobs)
{
    if (sources->count == sources->capacity) {
        int capacity = sources->capacity ? 2 * sources->capacity : 32;
        struct source *list = realloc(sources->list, (size_t)capacity * sizeof *list);

        if (list == NULL)
            return error_memory((size_t)capacity * sizeof *list, "the layers of a snapshot");
        sources->list = list;
        sources->capacity = capacity;
    }
    sources->list[sources->count] = (struct source){strdup(name), nblobs, false};
    if (sources->list[sources->count].name == NULL)
        return error_memory(strlen(name) + 1, "a layer's name");
    sources->count++;
    return 0;
}

static herr_t walk_visit(hid_t group, const char *name, const H5L_info_t *info, void *data);

/* A group is a layer where it has data sets, or nothing below it. */
static int walk_group(hid_t group, struct sources *sources, const char *prefix, int depth)
{
    struct walk walk = {sources, prefix, depth, 0, 0};

    if (depth > MAX_NESTING)
        return error_set("groups nested more than %d deep at 'data/%s'", MAX_NESTING, prefix);
    if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, walk_visit, &walk) < 0) {
        char reason[512];

        if (!sources->failed)
            error_set("group 'data/%s' cannot be read (%s)", prefix,
                      h5_reason(reason, sizeof reason));
        sources->failed = -1;
        return -1;
    }
    if (depth > 0 && (walk.ndatasets > 0 || walk.ngroups == 0))
        return sources_add(sources, prefix, walk.ndatasets);
    return 0;
}

static herr_t walk_visit(hid_t group, const char *name, const H5L_info_t *info, void *data)
{
    struct walk *walk = data;
    struct strbuf path = {0};
    hid_t object = H5Oopen(group, name, H5P_DEFAULT);
    int status = object < 0 ? -1 : 0;

    (void)info;
    if (status == 0 && H5Iget_type(object) == H5I_DATASET) {
        walk->ndatasets++;
    } else if (status == 0 && H5Iget_type(object) == H5I_GROUP) {
        walk->ngroups++;
        strbuf_printf(&path, "%s%s%s", walk->prefix, walk->prefix[0] ? "/" : "", name);
        status = strbuf_status(&path) ||
                 walk_group(object, walk->sources, strbuf_text(&path), walk->depth + 1);
        if (status)
            walk->sources->failed = -1;
    }
    if (object >= 0)
        H5Oclose(object);
    strbuf_free(&path);
    return status ? -1 : 0;
}

/* Other writers replace the slash that HDF5 cannot have in a name: by another character or %2F. */
static bool is_escaped_form(const char *name, const char *source)
{
    for (; *name && *source; name++) {
        if (*name != '/') {
            if (*name != *source)
                return false;
            source++;
        } else if (strncasecmp(source, "%2F", 3) == 0) {
            source += 3;
        } else if (isalnum((unsigned char)*source)) {
            return false;
        } else {
            source++;
        }
    }
    return *name == *source;
}

static bool net_has_layer(const struct snapshot_layer *layers, int nlayers, const char *name)
{
    for (int i = 0; i < nlayers; i++)
        if (strcmp(layers[i].name, name) == 0)
            return true;
    return false;
}

/* The part of the file that belongs to a layer, or NULL. */
static struct source *find_source(struct sources *sources, const struct snapshot_layer *layers,
                                  int nlayers, const char *name)
{
    for (int i = 0; i < sources->count; i++)
        if (strcmp(sources->list[i].name, name) == 0)
            return &sources->list[i];
    for (int i = 0; strchr(name, '/') && i < sources->count; i++)
        if (is_escaped_form(name, sources->list[i].name) &&
            !net_has_layer(layers, nlayers, sources->list[i].name))
            return &sources->list[i];
    return NULL;
}

static int check_or_read_param(hid_t file, const char *path, const struct source *source,
                               const struct snapshot_layer *layer, int i, bool read)
{
    const struct snapshot_blob *blob = &layer->blobs[i];
    char from[128], to[128];
    struct strbuf name = {0};
    struct h5_dataset dataset;
    struct shape found;
    bool mismatch;
    int status = -1;

    strbuf_printf(&name, "data/%s/%d", source->name, i);
    if (strbuf_status(&name))
        goto done;
    if (open_blob(file, path, strbuf_text(&name), blob, &dataset, &found, &mismatch)) {
        if (mismatch)
            error_set("%s: Cannot copy param %d weights from layer '%s'; shape mismatch.  Source "
                      "param shape is %s; target param shape is %s. To learn this layer's "
                      "parameters from scratch rather than copying from a saved net, rename the "
                      "layer.",
                      path, i, layer->name, shape_text(&found, from, sizeof from),
                      shape_text(blob->shape, to, sizeof to));
        goto done;
    }
    status = read ? h5_dataset_read_all(&dataset, H5T_NATIVE_FLOAT, blob->data) : 0;
    h5_dataset_close(&dataset);

done:
    strbuf_free(&name);
    return status;
}

static int wrong_count(const char *path, const struct source *source,
                       const struct snapshot_layer *layer)
{
    return error_set(
        "%s: Incompatible number of blobs for layer %s: the file has %d, the net has %d", path,
        layer->name, source->nblobs, layer->nblobs);
}

static int check_model_layer(hid_t file, const char *path, const struct source *source,
                             const struct snapshot_layer *layer)
{
    char name[16];
    struct strbuf group = {0};
    int status = 0;

    if (source->nblobs > layer->nblobs)
        return wrong_count(path, source, layer);
    for (int i = 0; i < layer->nblobs && status == 0; i++) {
        if (layer->blobs[i].shared)
            continue;
        snprintf(name, sizeof name, "/%d", i);
        strbuf_clear(&group);
        strbuf_printf(&group, "data/%s%s", source->name, name);
        if (strbuf_status(&group))
            status = -1;
        else if (H5Lexists(file, strbuf_text(&group), H5P_DEFAULT) <= 0)
            status = wrong_count(path, source, layer);
        else
            status = check_or_read_param(file, path, source, layer, i, false);
    }
    strbuf_free(&group);
    return status;
}

/* Whether another layer of that name has the parameters: the file knows only one of the two. */
static bool name_owns_blobs(const struct snapshot_layer *layers, int nlayers, int layer)
{
    for (int i = 0; i < nlayers; i++)
        if (snapshot_owned_blobs(&layers[i]) > 0 && strcmp(layers[i].name, layers[layer].name) == 0)
            return true;
    return false;
}

static int match_layers(hid_t file, const char *path, struct sources *sources,
                        const struct snapshot_layer *layers, int nlayers,
                        struct snapshot_report *report)
{
    for (int i = 0; i < nlayers; i++) {
        struct source *source = find_source(sources, layers, nlayers, layers[i].name);

        if (source)
            source->used = true;
        if (snapshot_owned_blobs(&layers[i]) == 0 &&
            (source == NULL || name_owns_blobs(layers, nlayers, i)))
            continue;
        if (source == NULL) {
            if (snapshot_report_add(&report->missing, &report->nmissing, layers[i].name))
                return -1;
            continue;
        }
        if (check_model_layer(file, path, source, &layers[i]))
            return -1;
    }
    for (int i = 0; i < sources->count; i++)
        if (!sources->list[i].used &&
            snapshot_report_add(&report->ignored, &report->nignored, sources->list[i].name))
            return -1;
    return 0;
}

static int read_model_layers(hid_t file, const char *path, struct sources *sources,
                             const struct snapshot_layer *layers, int nlayers)
{
    for (int i = 0; i < nlayers; i++) {
        struct source *source = find_source(sources, layers, nlayers, layers[i].name);

        for (int b = 0; source && b < layers[i].nblobs; b++)
            if (!layers[i].blobs[b].shared &&
                check_or_read_param(file, path, source, &layers[i], b, true))
                return error_context("layer '%s'", layers[i].name);
    }
    return 0;
}

static int open_model_data(hid_t file, const char *path, hid_t *data)
{
    char reason[512];

    *data = -1;
    if (!has_link(file, "data") && has_link(file, "iter") && has_link(file, "history"))
        return error_set("%s is a solver state, not a model: give it to --snapshot, or give the "
                         ".caffemodel.h5 that belongs to it",
                         path);
    if (!has_link(file, "data"))
        return error_set("%s is not a model: it has no group 'data'", path);
    *data = H5Gopen2(file, "data", H5P_DEFAULT);
    if (*data < 0)
        return error_set("%s is not a model: 'data' is not a group (%s)", path,
                         h5_reason(reason, sizeof reason));
    return 0;
}

int snapshot_read_model_hdf5(const char *path, const struct snapshot_layer *layers, int nlayers,
                             struct snapshot_report *report)
{
    struct sources sources = {0};
    hid_t file = -1, data = -1;
    int status = -1;

    if (checksum_check(path))
        return -1;
    h5_lock();
    if (h5_file_open(path, &file) || open_model_data(file, path, &data))
        goto done;
    if (walk_group(data, &sources, "", 0)) {
        error_context("%s", path);
        goto done;
    }
    if (match_layers(file, path, &sources, layers, nlayers, report) ||
        read_model_layers(file, path, &sources, layers, nlayers) ||
        h5_attribute_read_text(file, path, "run", &report->run))
        goto done;
    status = 0;

done:
    if (data >= 0)
        H5Gclose(data);
    if (file >= 0)
        H5Fclose(file);
    h5_unlock();
    sources_free(&sources);
    return status;
}

/* ---- models of any net ---- */

/* A parameter of a layer, if the file has it. */
static int take_param(hid_t file, const char *path, struct snapshot_layer *layer, int number)
{
    struct h5_dataset dataset;
    struct strbuf name = {0};
    struct shape shape;
    int status = -1;

    strbuf_printf(&name, "data/%s/%d", layer->name, number);
    if (strbuf_status(&name) || H5Lexists(file, strbuf_text(&name), H5P_DEFAULT) <= 0) {
        status = strbuf_status(&name);
    } else if (h5_dataset_open(file, path, strbuf_text(&name), &dataset) == 0) {
        if (shape_of_dataset(&dataset, &shape) == 0 &&
            weights_add_blob(path, layer, number, shape.naxes, shape.dim) == 0)
            status = h5_dataset_read_all(&dataset, H5T_NATIVE_FLOAT, layer->blobs[number].data);
        h5_dataset_close(&dataset);
    }
    strbuf_free(&name);
    return status;
}

int weights_read_hdf5(const char *path, struct weights *weights)
{
    struct sources sources = {0};
    hid_t file = -1, data = -1;
    int status;

    if (checksum_check(path))
        return -1;
    h5_lock();
    status = h5_file_open(path, &file) || open_model_data(file, path, &data) ? -1 : 0;
    if (status == 0 && walk_group(data, &sources, "", 0))
        status = error_context("%s", path);
    for (int i = 0; i < sources.count && status == 0; i++) {
        const char *name = sources.list[i].name;
        struct snapshot_layer *layer = weights_layer(weights, name, strlen(name));
        int found = 0;

        status = layer ? 0 : -1;
        for (int n = 0; n < SNAPSHOT_MAX_BLOBS && status == 0; n++) {
            status = take_param(file, path, layer, n);
            found += layer->nblobs > n && !layer->blobs[n].shared;
        }
        if (status == 0 && found != sources.list[i].nblobs)
            status = error_set("%s: layer '%s' has %d data sets; expected 0 to %d at most", path,
                               name, sources.list[i].nblobs, SNAPSHOT_MAX_BLOBS - 1);
    }
    if (status == 0)
        status = h5_attribute_read_text(file, path, "run", &weights->run);
    if (data >= 0)
        H5Gclose(data);
    if (file >= 0)
        H5Fclose(file);
    h5_unlock();
    sources_free(&sources);
    return status;
}

/* ---- states ---- */

/* The one element of a data set. */
static int read_state_number(hid_t file, const char *path, const char *name, hid_t type,
                             void *value)
{
    struct h5_dataset dataset;
    hsize_t elems = 1;
    int status;

    if (h5_dataset_open(file, path, name, &dataset))
        return -1;
    for (int i = 0; i < dataset.naxes; i++)
        elems *= dataset.dim[i];
    if (elems != 1)
        status = error_set("%s: data set '%s' has %llu elements; expected 1", path, name,
                           (unsigned long long)elems);
    else
        status = h5_dataset_read_all(&dataset, type, value);
    h5_dataset_close(&dataset);
    return status;
}

static int read_count(hid_t file, const char *path, const char *name, int32_t *value)
{
    if (read_state_number(file, path, name, H5T_NATIVE_INT32, value))
        return -1;
    if (*value < 0)
        return error_set("%s: '%s' is %d; expected 0 or more", path, name, *value);
    return 0;
}

/* Text of fixed length (Caffe's) or of variable length (h5py's), of an open data set. */
static char *read_stored_text(hid_t dataset, hid_t type)
{
    hid_t memory = H5Tcopy(H5T_C_S1);
    char *text = NULL, *loan = NULL;
    size_t size = H5Tget_size(type);

    H5Tset_cset(memory, H5Tget_cset(type));
    if (H5Tis_variable_str(type) > 0) {
        H5Tset_size(memory, H5T_VARIABLE);
        if (H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, &loan) >= 0 && loan)
            text = strdup(loan);
        H5free_memory(loan);
    } else if (size < 1 << 20) {
        text = calloc(1, size + 1);
        H5Tset_size(memory, size + 1);
        if (text && H5Dread(dataset, memory, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) < 0) {
            free(text);
            text = NULL;
        }
    }
    H5Tclose(memory);
    return text;
}

static int read_state_string(hid_t file, const char *path, const char *name, char **text)
{
    hid_t dataset = H5Dopen2(file, name, H5P_DEFAULT), type = -1, space = -1;
    char reason[512];
    int status = -1;

    if (dataset < 0)
        return error_set("%s: '%s' cannot be read (%s)", path, name,
                         h5_reason(reason, sizeof reason));
    type = H5Dget_type(dataset);
    space = H5Dget_space(dataset);
    if (H5Tget_class(type) != H5T_STRING || H5Sget_simple_extent_npoints(space) != 1) {
        error_set("%s: '%s' is not one text", path, name);
        goto done;
    }
    *text = read_stored_text(dataset, type);
    if (*text == NULL) {
        error_set("%s: '%s' cannot be read (%s)", path, name, h5_reason(reason, sizeof reason));
        goto done;
    }
    status = 0;

done:
    H5Sclose(space);
    H5Tclose(type);
    H5Dclose(dataset);
    return status;
}

/* *has: it is there. */
static int read_attribute(hid_t file, const char *path, const char *name, int64_t *value, bool *has)
{
    hid_t attribute;
    char reason[512];
    int status = 0;

    if (H5Aexists(file, name) <= 0)
        return 0;
    attribute = H5Aopen(file, name, H5P_DEFAULT);
    if (attribute < 0 || H5Aread(attribute, H5T_NATIVE_INT64, value) < 0)
        status = error_set("%s: attribute '%s' cannot be read (%s)", path, name,
                           h5_reason(reason, sizeof reason));
    if (attribute >= 0)
        H5Aclose(attribute);
    *has = status == 0;
    return status;
}

static int read_owner(hid_t file, const char *path, struct snapshot_state *state)
{
    bool has_batch;

    return read_attribute(file, path, "random_seed", &state->random_seed,
                          &state->has_random_seed) ||
                   read_attribute(file, path, "global_batch", &state->global_batch, &has_batch) ||
                   h5_attribute_read_text(file, path, "run", &state->run) ||
                   h5_attribute_read_text(file, path, "run_digest", &state->digest) ||
                   h5_attribute_read_text(file, path, "plan", &state->plan) ||
                   h5_attribute_read_text(file, path, "memory", &state->memory)
               ? -1
               : 0;
}

static int read_state_fields(hid_t file, const char *path, struct snapshot_state *state)
{
    if (read_count(file, path, "iter", &state->iter) ||
        read_state_string(file, path, "learned_net", &state->learned_net) ||
        read_count(file, path, "current_step", &state->current_step) ||
        read_owner(file, path, state))
        return -1;
    state->has_data_cursor = has_link(file, "data_cursor");
    if (state->has_data_cursor)
        return read_state_number(file, path, "data_cursor", H5T_NATIVE_UINT64, &state->data_cursor);
    return 0;
}

static int check_or_read_history(hid_t file, const char *path, const struct snapshot_blob *blob,
                                 int number, bool read)
{
    char name[32], from[128], to[128];
    struct h5_dataset dataset;
    struct shape found;
    bool mismatch;
    int status;

    snprintf(name, sizeof name, "history/%d", number);
    if (open_blob(file, path, name, blob, &dataset, &found, &mismatch)) {
        if (mismatch)
            error_set("%s: Cannot load blob from hdf5; shape mismatch. Source shape is %s target "
                      "shape is %s (history %d: the state of another net)",
                      path, shape_text(&found, from, sizeof from),
                      shape_text(blob->shape, to, sizeof to), number);
        return -1;
    }
    status = read ? h5_dataset_read_all(&dataset, H5T_NATIVE_FLOAT, blob->data) : 0;
    h5_dataset_close(&dataset);
    return status;
}

static int read_history(hid_t file, const char *path, const struct snapshot_blob *history,
                        int nhistory)
{
    H5G_info_t info;
    hid_t group = H5Gopen2(file, "history", H5P_DEFAULT);
    char reason[512];
    herr_t got = group < 0 ? -1 : H5Gget_info(group, &info);

    if (group >= 0)
        H5Gclose(group);
    if (got < 0)
        return error_set("%s: group 'history' cannot be read (%s)", path,
                         h5_reason(reason, sizeof reason));
    if (info.nlinks != (hsize_t)nhistory)
        return error_set(
            "%s: Incorrect length of history blobs. The file has %llu, the solver needs "
            "%d: the state of another net or another type of solver",
            path, (unsigned long long)info.nlinks, nhistory);
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < nhistory; i++)
            if (check_or_read_history(file, path, &history[i], i, pass == 1))
                return -1;
    return 0;
}

int snapshot_read_state_hdf5(const char *path, struct snapshot_state *state,
                             const struct snapshot_blob *history, int nhistory)
{
    hid_t file = -1;
    int status = -1;

    if (nhistory != SNAPSHOT_PEEK && checksum_check(path))
        return -1;
    h5_lock();
    if (h5_file_open(path, &file))
        goto done;
    if (has_link(file, "data") && !has_link(file, "iter")) {
        error_set("%s is a model, not a solver state: give it to --weights, or give the "
                  ".solverstate.h5 that belongs to it",
                  path);
        goto done;
    }
    if (!has_link(file, "iter") || !has_link(file, "history")) {
        error_set("%s is not a solver state: it has no '%s'", path,
                  has_link(file, "iter") ? "history" : "iter");
        goto done;
    }
    status = read_state_fields(file, path, state) ||
                     (nhistory != SNAPSHOT_PEEK && read_history(file, path, history, nhistory))
                 ? -1
                 : 0;

done:
    if (file >= 0)
        H5Fclose(file);
    h5_unlock();
    return status;
}
