/* Reading a state, and what reading a model shares with it. */
#include "snapshot/snapshot_internal.h"

#include "snapshot/checksum.h"
#include "util/error.h"
#include "util/strbuf.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool snapshot_is_binary(const char *path)
{
    struct stat info;

    return stat(path, &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0 && !h5_is_file(path);
}

bool snapshot_has(hid_t file, const char *name)
{
    return H5Lexists(file, name, H5P_DEFAULT) > 0;
}

/* The shape of a data set as a shape of ours; sizes that no blob can have become an error. */
static int shape_of(const struct h5_dataset *dataset, struct shape *shape)
{
    int64_t dim[H5S_MAX_RANK];
    char what[512];

    for (int i = 0; i < dataset->naxes; i++)
        dim[i] = (int64_t)dataset->dim[i];
    snprintf(what, sizeof what, "%s: data set '%s'", dataset->path, dataset->name);
    return shape_set(shape, dataset->naxes, dim, what);
}

int snapshot_open_blob(hid_t file, const char *path, const char *name,
                       const struct snapshot_blob *blob, struct h5_dataset *dataset,
                       struct shape *found, bool *mismatch)
{
    *mismatch = false;
    if (h5_dataset_open(file, path, name, dataset))
        return -1;
    if (shape_of(dataset, found) == 0) {
        *mismatch = !shape_equal(found, blob->shape);
        if (!*mismatch)
            return 0;
    }
    h5_dataset_close(dataset);
    return -1;
}

/* The one element of a data set. */
static int read_number(hid_t file, const char *path, const char *name, hid_t type, void *value)
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
    if (read_number(file, path, name, H5T_NATIVE_INT32, value))
        return -1;
    if (*value < 0)
        return error_set("%s: '%s' is %d; expected 0 or more", path, name, *value);
    return 0;
}

/* Text of fixed length (Caffe's) or of variable length (h5py's), of an open data set. */
static char *read_text(hid_t dataset, hid_t type)
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

static int read_string(hid_t file, const char *path, const char *name, char **text)
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
    *text = read_text(dataset, type);
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

static int read_seed(hid_t file, const char *path, struct snapshot_state *state)
{
    hid_t attribute;
    char reason[512];
    int status = 0;

    if (H5Aexists(file, "random_seed") <= 0)
        return 0;
    attribute = H5Aopen(file, "random_seed", H5P_DEFAULT);
    if (attribute < 0 || H5Aread(attribute, H5T_NATIVE_INT64, &state->random_seed) < 0)
        status = error_set("%s: attribute 'random_seed' cannot be read (%s)", path,
                           h5_reason(reason, sizeof reason));
    if (attribute >= 0)
        H5Aclose(attribute);
    state->has_random_seed = status == 0;
    return status;
}

static int read_fields(hid_t file, const char *path, struct snapshot_state *state)
{
    if (read_count(file, path, "iter", &state->iter) ||
        read_string(file, path, "learned_net", &state->learned_net) ||
        read_count(file, path, "current_step", &state->current_step) ||
        read_seed(file, path, state))
        return -1;
    state->has_data_cursor = snapshot_has(file, "data_cursor");
    if (state->has_data_cursor)
        return read_number(file, path, "data_cursor", H5T_NATIVE_UINT64, &state->data_cursor);
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
    if (snapshot_open_blob(file, path, name, blob, &dataset, &found, &mismatch)) {
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

int snapshot_read_state(const char *path, struct snapshot_state *state,
                        const struct snapshot_blob *history, int nhistory)
{
    hid_t file = -1;
    int status = -1;

    *state = (struct snapshot_state){0};
    if (snapshot_is_binary(path))
        return snapshot_read_state_binary(path, state, history, nhistory);
    if (seal_check(path))
        return -1;
    h5_lock();
    if (h5_file_open(path, &file))
        goto done;
    if (snapshot_has(file, "data") && !snapshot_has(file, "iter")) {
        error_set("%s is a model, not a solver state: give it to --weights, or give the "
                  ".solverstate.h5 that belongs to it",
                  path);
        goto done;
    }
    if (!snapshot_has(file, "iter") || !snapshot_has(file, "history")) {
        error_set("%s is not a solver state: it has no '%s'", path,
                  snapshot_has(file, "iter") ? "history" : "iter");
        goto done;
    }
    status = read_fields(file, path, state) || read_history(file, path, history, nhistory) ? -1 : 0;

done:
    if (file >= 0)
        H5Fclose(file);
    h5_unlock();
    if (status)
        snapshot_state_free(state);
    return status;
}

int snapshot_find_model(const char *state_path, const char *learned_net, char **model)
{
    const char *slash = strrchr(state_path, '/'), *base = strrchr(learned_net, '/');
    struct strbuf beside = {0};
    char folder[1024];

    base = base ? base + 1 : learned_net;
    if (access(learned_net, F_OK) == 0) {
        strbuf_puts(&beside, learned_net);
        *model = strbuf_take(&beside);
        return *model ? 0 : -1;
    }
    if (slash)
        strbuf_append(&beside, state_path, (size_t)(slash - state_path) + 1);
    strbuf_puts(&beside, base);
    *model = strbuf_take(&beside);
    if (*model == NULL)
        return -1;
    if (access(*model, F_OK) == 0)
        return 0;
    error_set("%s: its model '%s' is neither there (the current folder is %s) nor beside the state "
              "as '%s'",
              state_path, learned_net, getcwd(folder, sizeof folder) ? folder : "unknown", *model);
    free(*model);
    *model = NULL;
    return -1;
}

void snapshot_state_free(struct snapshot_state *state)
{
    free(state->learned_net);
    *state = (struct snapshot_state){0};
}
