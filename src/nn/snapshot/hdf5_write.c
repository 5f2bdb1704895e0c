/* Writes HDF5 snapshots. The one trick: HDF5 composes a file in memory that has places for the
 * blobs' values, but not the values. Plain writes then bring both to the disk. HDF5 cannot close a
 * file whose disk is full, and keeps it until the process ends. So HDF5 never sees the disk, and
 * its lock is free before the slow part begins. */
#define _GNU_SOURCE
#include "snapshot/snapshot_internal.h"

#include "config.h"
#include "spec/h5.h"
#include "util/alloc.h"
#include "util/error.h"
#include "util/strbuf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LONGEST_ATTRIBUTE                                                                          \
    ((size_t)60 << 10) /* below HDF5's limit of 64 kB for an attribute with its header */

static int composing_failed(const char *path, const char *action, const char *name)
{
    return h5_error("%s: cannot %s '%s'", path, action, name);
}

/* A blob's values and their place in the file. */
struct place {
    haddr_t at;
    const float *values;
    size_t count;
};

/* A file that HDF5 composes. */
struct composed {
    const char *path; /* the snapshot's path, borrowed */
    int memory;       /* descriptor of the file in memory */
    hid_t file;
    struct place *places; /* places of all blobs with values; owned */
    int nplaces;
};

/* Creates the file in memory; room: number of blobs. Called with HDF5's lock held. */
static int open_composed(struct composed *composed, const char *path, size_t room)
{
    hid_t access;
    char name[32];

    *composed = (struct composed){.path = path, .file = -1};
    composed->memory = memfd_create("snapshot", MFD_CLOEXEC);
    if (composed->memory < 0)
        return error_set("%s: cannot create a file in memory: %s", path, strerror(errno));
    if (ALLOC(composed->places, room, path))
        return -1;
    snprintf(name, sizeof name, "/proc/self/fd/%d", composed->memory);
    access = H5Pcreate(H5P_FILE_ACCESS);
    H5Pset_fapl_stdio(access); /* the default driver resolves links, this one to no name */
    composed->file = H5Fcreate(name, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    H5Pclose(access);
    return composed->file < 0 ? composing_failed(path, "compose", "the file in memory") : 0;
}

/* Writes a data set; closes `space`. data NULL: leaves the values out; *at gets their place in the
 * file. */
static int write_dataset(hid_t group, const char *path, const char *name, hid_t type, hid_t space,
                         const void *data, haddr_t *at)
{
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE), dataset;
    int status = 0;

    H5Pset_obj_track_times(properties, 0); /* equal runs write equal bytes */
    H5Pset_alloc_time(properties, data ? H5D_ALLOC_TIME_LATE : H5D_ALLOC_TIME_EARLY);
    H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER);
    dataset = H5Dcreate2(group, name, type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    if (dataset < 0 || (data && H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0))
        status = composing_failed(path, "write data set", name);
    if (!data && !status)
        *at = H5Dget_offset(dataset);
    if (dataset >= 0)
        H5Dclose(dataset);
    H5Sclose(space);
    H5Pclose(properties);
    return status;
}

/* Creates the data set of a blob and remembers the place of its values. */
static int place_blob(struct composed *composed, hid_t group, int number,
                      const struct snapshot_blob *blob)
{
    const struct shape *shape = blob->shape;
    size_t count = shape_elems(shape);
    hsize_t dims[SHAPE_MAX_AXES];
    haddr_t at = HADDR_UNDEF;
    hid_t space;
    char name[16];

    snprintf(name, sizeof name, "%d", number);
    for (int i = 0; i < shape->naxes; i++)
        dims[i] = (hsize_t)shape->dim[i];
    space = shape->naxes ? H5Screate_simple(shape->naxes, dims, NULL) : H5Screate(H5S_SCALAR);
    if (write_dataset(group, composed->path, name, H5T_IEEE_F32LE, space, NULL, &at))
        return -1;
    if (count > 0)
        composed->places[composed->nplaces++] = (struct place){at, blob->data, count};
    return count > 0 && at == HADDR_UNDEF ? composing_failed(composed->path, "place", name) : 0;
}

/* Writes a number as Caffe stores it: an array of one element. */
static int write_number(hid_t file, const char *path, const char *name, hid_t type,
                        const void *value)
{
    hsize_t one = 1;

    return write_dataset(file, path, name, type, H5Screate_simple(1, &one, NULL), value, NULL);
}

static int write_string(hid_t file, const char *path, const char *name, const char *text)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    int status;

    H5Tset_size(type, strlen(text) + 1);
    status = write_dataset(file, path, name, type, H5Screate(H5S_SCALAR), text, NULL);
    H5Tclose(type);
    return status;
}

/* Writes a text as an attribute, or a long text as a data set; writes no empty text. */
static int write_text(hid_t file, const char *path, const char *name, const char *text)
{
    if (text == NULL || text[0] == '\0')
        return 0;
    return strlen(text) > LONGEST_ATTRIBUTE ? write_string(file, path, name, text)
                                            : h5_attribute_write_texts(file, path, name, 1, &text);
}

/* Writes the version and the texts of a model's owner, or of a state's. */
static int write_owner(hid_t file, const char *path, const struct snapshot_owner *owner, bool state)
{
    int status = write_text(file, path, "poseidon_version", PACKAGE_VERSION);

    for (int i = 0; i < SNAPSHOT_TEXTS && !status; i++)
        if (state ? snapshot_texts[i].of_state : i < SNAPSHOT_MODEL_TEXTS)
            status = write_text(file, path, snapshot_texts[i].name, snapshot_text_of(owner, i));
    return status;
}

/* Opens or creates a layer's group under `data`: one level per part of the name between slashes. */
static hid_t layer_group(hid_t data, const char *path, const char *name)
{
    const char *place = name + strspn(name, "/"); /* a leading slash would mean the file's root */
    hid_t links, group = -1;

    if (!*place) {
        error_set("%s: a layer named '%s' has no place in a snapshot; give it a name", path, name);
        return -1;
    }
    links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    group = H5Gopen2(data, place, H5P_DEFAULT);
    if (group < 0)
        group = H5Gcreate2(data, place, links, H5P_DEFAULT, H5P_DEFAULT);
    if (group < 0)
        error_set("%s: the place of layer '%s' in the snapshot is taken by a parameter of another "
                  "layer; rename one of them",
                  path, name);
    H5Pclose(links);
    return group;
}

/* Writes the attribute `shared`: the owners of blobs that the layer does not own. */
static int write_shared(hid_t group, const char *path, const struct snapshot_layer *layer)
{
    struct strbuf names[SNAPSHOT_MAX_BLOBS] = {{0}};
    const char *texts[SNAPSHOT_MAX_BLOBS];
    int status = 0;

    for (int i = 0; i < layer->nblobs; i++) {
        if (layer->blobs[i].owner)
            strbuf_printf(&names[i], "%s/%d", layer->blobs[i].owner, layer->blobs[i].owner_blob);
        texts[i] = strbuf_text(&names[i]);
        status = error_status(status || strbuf_status(&names[i]));
    }
    if (!status && snapshot_owned_blobs(layer) < layer->nblobs)
        status = h5_attribute_write_texts(group, path, "shared", layer->nblobs, texts);
    for (int i = 0; i < layer->nblobs; i++)
        strbuf_free(&names[i]);
    return status;
}

static int write_model_layer(struct composed *composed, hid_t data,
                             const struct snapshot_layer *layer)
{
    const char *path = composed->path;
    hid_t group;
    int status;

    if (layer->name[0] == '\0' && snapshot_owned_blobs(layer) == 0)
        return 0;
    group = layer_group(data, path, layer->name);
    if (group < 0)
        return -1;
    status = write_shared(group, path, layer);
    for (int i = 0; i < layer->nblobs && status == 0; i++)
        if (!layer->blobs[i].shared)
            status = place_blob(composed, group, i, &layer->blobs[i]);
    H5Gclose(group);
    return status ? error_context("layer '%s'", layer->name) : 0;
}

static int compose_model(struct composed *composed, const struct snapshot_owner *owner,
                         const struct snapshot_layer *layers, int nlayers)
{
    hid_t data = H5Gcreate2(composed->file, "data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    int status = data < 0 ? composing_failed(composed->path, "write group", "data")
                          : write_owner(composed->file, composed->path, owner, false);

    for (int i = 0; i < nlayers && status == 0; i++)
        status = write_model_layer(composed, data, &layers[i]);
    if (data >= 0)
        H5Gclose(data);
    return status;
}

static int compose_state(struct composed *composed, const struct snapshot_state *state,
                         const struct snapshot_blob *history, int nhistory)
{
    const char *path = composed->path;
    hid_t file = composed->file, group;
    int status = 0;

    if (write_number(file, path, "iter", H5T_NATIVE_INT32, &state->iter) ||
        write_string(file, path, "learned_net", state->learned_net) ||
        write_number(file, path, "current_step", H5T_NATIVE_INT32, &state->current_step) ||
        write_owner(file, path, &state->owner, true) ||
        (state->owner.global_batch > 0 &&
         write_number(file, path, "global_batch", H5T_NATIVE_INT64, &state->owner.global_batch)) ||
        (state->has_data_cursor &&
         write_number(file, path, "data_cursor", H5T_NATIVE_UINT64, &state->data_cursor)))
        return -1;
    group = H5Gcreate2(file, "history", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (group < 0)
        return composing_failed(path, "write group", "history");
    for (int i = 0; i < nhistory && !status; i++)
        status = place_blob(composed, group, i, &history[i]);
    H5Gclose(group);
    return status;
}

/* Copies what HDF5 composed from `at` up to `end`. */
static void put_composed(struct snapshot_output *to, int memory, uint64_t at, uint64_t end)
{
    char block[1 << 14];

    while (at < end) {
        size_t n = end - at < sizeof block ? (size_t)(end - at) : sizeof block;

        if (pread(memory, block, n, (off_t)at) != (ssize_t)n) {
            to->file.error = EIO;
            return;
        }
        snapshot_put(to, block, n);
        at += n;
    }
}

static int compare_places(const void *a, const void *b)
{
    haddr_t first = ((const struct place *)a)->at, second = ((const struct place *)b)->at;

    return (first > second) - (first < second);
}

/* Writes the composed file with the values, followed by its checksum. */
static int write_composed(const struct composed *composed, const char *what)
{
    char line[CHECKSUM_BYTES + 1];
    struct snapshot_output to;
    int status = snapshot_output_open(composed->path, &to);
    off_t length = lseek(composed->memory, 0, SEEK_END);
    uint64_t at = 0;

    qsort(composed->places, (size_t)composed->nplaces, sizeof *composed->places, compare_places);
    for (int i = 0; i < composed->nplaces && !status; i++) {
        const struct place *place = &composed->places[i];

        put_composed(&to, composed->memory, at, place->at);
        snapshot_put_floats(&to, place->values, place->count);
        at = place->at + place->count * sizeof(float);
    }
    if (!status) {
        put_composed(&to, composed->memory, at, (uint64_t)length);
        checksum_line(to.sum, line);
        snapshot_put(&to, line, CHECKSUM_BYTES);
    }
    return snapshot_output_close(&to, status, what);
}

/* Closes and saves a composed file. status: result of composing. Called with HDF5's lock held;
 * releases the lock for the slow part, and returns without it. */
static int save_composed(struct composed *composed, const char *what, int status)
{
    errno = 0;
    if (composed->file >= 0 && H5Fclose(composed->file) < 0 && !status) { /* ulimit -f */
        error_set("cannot write '%s': %s", composed->path, strerror(errno));
        status = SNAPSHOT_NOT_WRITTEN;
    }
    h5_unlock();
    if (status)
        error_context("the %s cannot be saved", what);
    else
        status = write_composed(composed, what);
    if (composed->memory >= 0)
        close(composed->memory);
    free(composed->places);
    return status;
}

int snapshot_write_model(const char *path, const struct snapshot_owner *owner,
                         const struct snapshot_layer *layers, int nlayers)
{
    struct composed composed;
    int status;

    if (snapshot_check_names(path, layers, nlayers))
        return -1;
    h5_lock();
    status = error_status(open_composed(&composed, path, (size_t)nlayers * SNAPSHOT_MAX_BLOBS) ||
                          compose_model(&composed, owner, layers, nlayers));
    return save_composed(&composed, "model", status);
}

int snapshot_write_state(const char *path, const struct snapshot_state *state,
                         const struct snapshot_blob *history, int nhistory)
{
    struct composed composed;
    int status;

    h5_lock();
    status = error_status(open_composed(&composed, path, (size_t)nhistory) ||
                          compose_state(&composed, state, history, nhistory));
    return save_composed(&composed, "solver state", status);
}
