/* Reads HDF5 models and states. */
#include "snapshot/snapshot_internal.h"

#include "util/alloc.h"
#include "spec/h5.h"
#include "util/strbuf.h"

#include <stdlib.h>
#include <string.h>

#define MAX_NESTING 16 /* depth of groups; guards against groups that contain themselves */

/* Returns true if the file has a link of that name at its top level. */
static bool has_link(hid_t file, const char *name)
{
    return H5Lexists(file, name, H5P_DEFAULT) > 0;
}

/* ---- blobs ---- */

/* An open HDF5 model or state. */
struct reader {
    hid_t file;
    const char *path;
    struct stored_layers layers; /* nblobs: data sets in a group; names: paths below `data` */
    bool failed;                 /* the walk failed, and the error message is set */
};

/* Sets *name to the data set of a shared blob, if the layer at `group` names the blob's owner. */
static void name_shared(hid_t file, const char *path, const char *group, int blob,
                        struct strbuf *name)
{
    hid_t layer = H5Gopen2(file, group, H5P_DEFAULT);
    char **owners = NULL;
    int count = 0;

    if (layer >= 0) { /* another program's attribute of this name may be of another kind */
        (void)h5_attribute_read_texts(layer, path, "shared", &owners, &count);
        H5Gclose(layer);
    }
    if (blob < count && owners[blob][0]) {
        strbuf_clear(name);
        strbuf_printf(name, "data/%s", owners[blob]);
    }
    alloc_free_list(owners, count);
}

/* Returns the path of a blob's data set; NULL: no memory. */
static char *name_blob(const struct reader *r, int layer, int blob)
{
    struct strbuf name = {0}, group = {0};

    if (layer == SNAPSHOT_HISTORY) {
        strbuf_printf(&name, "history/%d", blob);
        return strbuf_take(&name);
    }
    strbuf_printf(&group, "data/%s", r->layers.layer[layer].name);
    strbuf_printf(&name, "%s/%d", strbuf_text(&group), blob);
    if (!strbuf_status(&group) && !strbuf_status(&name) && !has_link(r->file, strbuf_text(&name)))
        name_shared(r->file, r->path, strbuf_text(&group), blob, &name);
    strbuf_free(&group);
    return strbuf_take(&name);
}

static int find_blob(void *context, int layer, int blob, struct stored_blob *out)
{
    const struct reader *r = context;
    char *name = name_blob(r, layer, blob);
    struct h5_dataset dataset;
    int status = !name ? -1 : has_link(r->file, name) ? 0 : 1;

    if (!status)
        status = h5_dataset_open(r->file, r->path, name, &dataset);
    if (!status) {
        *out = (struct stored_blob){.naxes = dataset.naxes, .elems = 1};
        for (int i = 0; i < dataset.naxes; i++) {
            out->dim[i] = (int64_t)dataset.dim[i];
            out->elems *= dataset.dim[i];
        }
        h5_dataset_close(&dataset);
    }
    free(name);
    return status;
}

static int read_blob(void *context, int layer, int blob, float *out)
{
    const struct reader *r = context;
    char *name = name_blob(r, layer, blob);
    struct h5_dataset dataset;
    int status = name ? h5_dataset_open(r->file, r->path, name, &dataset) : -1;

    if (!status) {
        status = h5_dataset_read_all(&dataset, H5T_NATIVE_FLOAT, out);
        h5_dataset_close(&dataset);
    }
    free(name);
    return status;
}

/* ---- models ---- */

/* One level of the walk over the groups below `data`. */
struct walk {
    struct reader *reader;
    const char *prefix; /* path of this group below `data`, "" at the top */
    int depth;
    int ndatasets, ngroups; /* children of this group */
};

static herr_t walk_visit(hid_t group, const char *name, const H5L_info_t *info, void *data);

/* Adds the layers in a group: itself, if it has data sets or no subgroups, and those below it. */
static int walk_group(hid_t group, struct reader *r, const char *prefix, int depth)
{
    struct walk walk = {r, prefix, depth, 0, 0};
    struct stored_layer *layer;

    if (depth > MAX_NESTING)
        return error_set("groups nested more than %d deep at 'data/%s'", MAX_NESTING, prefix);
    if (H5Literate(group, H5_INDEX_NAME, H5_ITER_INC, NULL, walk_visit, &walk) < 0) {
        if (!r->failed)
            h5_error("group 'data/%s' cannot be read", prefix);
        r->failed = true;
        return -1;
    }
    if (depth == 0 || (walk.ndatasets == 0 && walk.ngroups > 0))
        return 0;
    layer = stored_layers_add(&r->layers, prefix, strlen(prefix));
    if (layer)
        layer->nblobs = walk.ndatasets;
    return layer ? 0 : -1;
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
                 walk_group(object, walk->reader, strbuf_text(&path), walk->depth + 1);
        if (status)
            walk->reader->failed = true;
    }
    if (object >= 0)
        H5Oclose(object);
    strbuf_free(&path);
    return status ? -1 : 0;
}

static int open_model_data(hid_t file, const char *path, hid_t *data)
{
    *data = -1;
    if (!has_link(file, "data") && has_link(file, "iter") && has_link(file, "history"))
        return error_set("%s is a solver state, not a model: give it to --snapshot, or give the "
                         ".caffemodel.h5 that belongs to it",
                         path);
    if (!has_link(file, "data"))
        return error_set("%s is not a model: it has no group 'data'", path);
    *data = H5Gopen2(file, "data", H5P_DEFAULT);
    if (*data < 0)
        return h5_error("%s is not a model: 'data' is not a group", path);
    return 0;
}

static void close_model(void *context)
{
    struct reader *r = context;

    if (r->file >= 0)
        H5Fclose(r->file);
    h5_unlock();
    stored_layers_free(&r->layers);
    free(r);
}

static int walk_model(struct reader *r)
{
    hid_t data;
    int status;

    if (h5_file_open(r->path, &r->file) || open_model_data(r->file, r->path, &data))
        return -1;
    status = walk_group(data, r, "", 0);
    H5Gclose(data);
    return status ? error_context("%s", r->path) : 0;
}

/* Reads a text from an attribute, or from a data set if the text was too long for an attribute. */
static int read_text(hid_t file, const char *path, const char *name, char **text)
{
    return H5Aexists(file, name) <= 0 && has_link(file, name)
               ? h5_dataset_read_text(file, path, name, text)
               : h5_attribute_read_text(file, path, name, text);
}

/* Holds HDF5's lock until the source is closed. */
int snapshot_open_hdf5(const char *path, struct snapshot_source *out)
{
    struct reader *r;

    if (checksum_check(path))
        return -1;
    if (ALLOC(r, 1, path))
        return -1;
    *r = (struct reader){.file = -1, .path = path};
    *out = (struct snapshot_source){.path = path,
                                    .hdf5 = true,
                                    .context = r,
                                    .find = find_blob,
                                    .read = read_blob,
                                    .close = close_model};
    h5_lock();
    if (walk_model(r))
        return -1;
    out->layers = r->layers.layer;
    out->nlayers = r->layers.count;
    for (int i = 0; i < SNAPSHOT_MODEL_TEXTS; i++)
        if (read_text(r->file, path, snapshot_texts[i].name, snapshot_text_in(&out->owner, i)))
            return -1;
    return 0;
}

/* ---- states ---- */

/* Reads the only element of a data set. */
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

static int read_owner(hid_t file, const char *path, struct snapshot_owner *owner)
{
    int status = 0;

    for (int i = 0; i < SNAPSHOT_TEXTS && !status; i++)
        if (snapshot_texts[i].of_state)
            status = read_text(file, path, snapshot_texts[i].name, snapshot_text_in(owner, i));
    return status;
}

static int read_history(hid_t file, const char *path, const struct snapshot_blob *history,
                        int nhistory)
{
    struct reader r = {.file = file, .path = path};
    struct snapshot_source source = {
        .path = path, .hdf5 = true, .context = &r, .find = find_blob, .read = read_blob};
    H5G_info_t info;
    hid_t group = H5Gopen2(file, "history", H5P_DEFAULT);
    herr_t got = group < 0 ? -1 : H5Gget_info(group, &info);

    if (group >= 0)
        H5Gclose(group);
    if (got < 0)
        return h5_error("%s: group 'history' cannot be read", path);
    return snapshot_load_history(&source, info.nlinks, history, nhistory);
}

static int read_state(hid_t file, const char *path, struct snapshot_state *state)
{
    if (has_link(file, "data") && !has_link(file, "iter"))
        return error_set("%s is a model, not a solver state: give it to --weights, or give the "
                         ".solverstate.h5 that belongs to it",
                         path);
    if (!has_link(file, "iter") || !has_link(file, "history"))
        return error_set("%s is not a solver state: it has no '%s'", path,
                         has_link(file, "iter") ? "history" : "iter");
    if (read_count(file, path, "iter", &state->iter) ||
        h5_dataset_read_text(file, path, "learned_net", &state->learned_net) ||
        read_count(file, path, "current_step", &state->current_step) ||
        read_owner(file, path, &state->owner))
        return -1;
    state->has_data_cursor = has_link(file, "data_cursor");
    if (state->has_data_cursor &&
        read_state_number(file, path, "data_cursor", H5T_NATIVE_UINT64, &state->data_cursor))
        return -1;
    return has_link(file, "global_batch")
               ? read_state_number(file, path, "global_batch", H5T_NATIVE_INT64,
                                   &state->owner.global_batch)
               : 0;
}

int snapshot_read_state_hdf5(const char *path, struct snapshot_state *state,
                             const struct snapshot_blob *history, int nhistory)
{
    hid_t file;
    int status;

    if (nhistory != SNAPSHOT_PEEK && checksum_check(path))
        return -1;
    h5_lock();
    status = h5_file_open(path, &file);
    if (!status)
        status = error_status(
            read_state(file, path, state) ||
            (nhistory != SNAPSHOT_PEEK && read_history(file, path, history, nhistory)));
    if (file >= 0)
        H5Fclose(file);
    h5_unlock();
    return status;
}
