/* Writes HDF5 snapshots. The one trick: HDF5 composes the file in memory, and plain writes bring
 * the bytes to disk. HDF5 cannot close a file whose disk is full, and keeps it until the process
 * ends. So HDF5 never sees the disk, and its lock is free before the slow part begins. */
#include "snapshot/snapshot_internal.h"

#include "config.h"
#include "util/error.h"
#include "util/file.h"
#include "spec/h5.h"
#include "util/strbuf.h"

#include <stdlib.h>
#include <string.h>

#define MEMORY_STEP ((size_t)4 << 20) /* bytes by which the file in memory grows */
#define CHUNK_BYTES ((hsize_t)16 << 20)
#define LONGEST_ATTRIBUTE                                                                          \
    ((size_t)60 << 10) /* below HDF5's limit of 64 kB for an attribute with its header */

static int composing_failed(const char *path, const char *action, const char *name)
{
    return h5_error("%s: cannot %s '%s'", path, action, name);
}

static hid_t memory_file_create(const char *path)
{
    hid_t access = H5Pcreate(H5P_FILE_ACCESS), file = -1;

    if (access >= 0 && H5Pset_fapl_core(access, MEMORY_STEP, 0) >= 0)
        file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access);
    if (file < 0)
        composing_failed(path, "compose", "the file in memory");
    if (access >= 0)
        H5Pclose(access);
    return file;
}

/* Gets the file's bytes. HDF5 owns the bytes, and frees them when the file is closed. */
static int memory_file_bytes(hid_t file, const char *path, const void **bytes, size_t *length)
{
    ssize_t size;
    void **memory; /* handle of a file in memory: points to its bytes */

    if (H5Fflush(file, H5F_SCOPE_GLOBAL) < 0)
        return composing_failed(path, "flush", "the file in memory");
    size = H5Fget_file_image(file, NULL, 0); /* bytes of the file; its memory may be larger */
    if (size <= 0)
        return composing_failed(path, "measure", "the file in memory");
    if (H5Fget_vfd_handle(file, H5P_DEFAULT, (void **)&memory) < 0)
        return composing_failed(path, "find", "the file in memory");
    *bytes = *memory;
    *length = (size_t)size;
    return 0;
}

/* Sets a chunk's dimensions: about CHUNK_BYTES, cut along the outer axes into equal parts, so that
 * the last chunk is not mostly empty. */
static void chunk_dims(const struct shape *shape, hsize_t *chunk)
{
    hsize_t rest = sizeof(float);

    for (int i = shape->naxes - 1; i >= 0; i--) {
        hsize_t dim = (hsize_t)shape->dim[i], most = CHUNK_BYTES / rest, parts;

        most = most > 0 ? most : 1;
        parts = (dim + most - 1) / most;
        chunk[i] = (dim + parts - 1) / parts;
        rest *= chunk[i];
    }
}

/* Returns the properties of a data set: no time stamps, so that equal runs write equal bytes; and
 * checksums, which HDF5 has for chunked storage only. */
static hid_t dataset_properties(const struct shape *shape)
{
    hid_t properties = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t chunk[SHAPE_MAX_AXES];

    H5Pset_obj_track_times(properties, 0);
    if (shape && shape->naxes > 0 && shape_elems(shape) > 0) {
        chunk_dims(shape, chunk);
        H5Pset_chunk(properties, shape->naxes, chunk);
        H5Pset_fletcher32(properties);
    }
    return properties;
}

/* Writes a data set; closes `space`. shape: shape of floats to store in chunks; NULL: no chunks. */
static int write_dataset(hid_t group, const char *path, const char *name, hid_t file_type,
                         hid_t memory_type, hid_t space, const struct shape *shape,
                         const void *data)
{
    hid_t properties = dataset_properties(shape);
    hid_t dataset = H5Dcreate2(group, name, file_type, space, H5P_DEFAULT, properties, H5P_DEFAULT);
    int status = 0;

    if (dataset < 0 || H5Dwrite(dataset, memory_type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) < 0)
        status = composing_failed(path, "write data set", name);
    if (dataset >= 0)
        H5Dclose(dataset);
    H5Sclose(space);
    H5Pclose(properties);
    return status;
}

static int write_blob(hid_t group, const char *path, int number, const struct snapshot_blob *blob)
{
    const struct shape *shape = blob->shape;
    hsize_t dims[SHAPE_MAX_AXES];
    hid_t space;
    char name[16];

    snprintf(name, sizeof name, "%d", number);
    for (int i = 0; i < shape->naxes; i++)
        dims[i] = (hsize_t)shape->dim[i];
    space = shape->naxes ? H5Screate_simple(shape->naxes, dims, NULL) : H5Screate(H5S_SCALAR);
    return write_dataset(group, path, name, H5T_IEEE_F32LE, H5T_NATIVE_FLOAT, space, shape,
                         blob->data);
}

/* Writes a number as Caffe stores it: an array of one element. */
static int write_number(hid_t file, const char *path, const char *name, hid_t type,
                        const void *value)
{
    hsize_t one = 1;

    return write_dataset(file, path, name, type, type, H5Screate_simple(1, &one, NULL), NULL,
                         value);
}

static int write_string(hid_t file, const char *path, const char *name, const char *text)
{
    hid_t type = H5Tcopy(H5T_C_S1);
    int status;

    H5Tset_size(type, strlen(text) + 1);
    status = write_dataset(file, path, name, type, type, H5Screate(H5S_SCALAR), NULL, text);
    H5Tclose(type);
    return status;
}

static int write_number_attribute(hid_t file, const char *path, const char *name,
                                  const int64_t *value)
{
    hid_t space = H5Screate(H5S_SCALAR);
    hid_t attribute = H5Acreate2(file, name, H5T_NATIVE_INT64, space, H5P_DEFAULT, H5P_DEFAULT);
    int status = 0;

    if (attribute < 0 || H5Awrite(attribute, H5T_NATIVE_INT64, value) < 0)
        status = composing_failed(path, "write attribute", name);
    if (attribute >= 0)
        H5Aclose(attribute);
    H5Sclose(space);
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

static int write_model_layer(hid_t data, const char *path, const struct snapshot_layer *layer)
{
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
            status = write_blob(group, path, i, &layer->blobs[i]);
    H5Gclose(group);
    return status ? error_context("layer '%s'", layer->name) : 0;
}

static int compose_model(hid_t file, const char *path, const struct snapshot_owner *owner,
                         const struct snapshot_layer *layers, int nlayers)
{
    hid_t data = H5Gcreate2(file, "data", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    int status = data < 0 ? composing_failed(path, "write group", "data")
                          : write_owner(file, path, owner, false);

    for (int i = 0; i < nlayers && status == 0; i++)
        status = write_model_layer(data, path, &layers[i]);
    if (data >= 0)
        H5Gclose(data);
    return status;
}

static int compose_state(hid_t file, const char *path, const struct snapshot_state *state,
                         const struct snapshot_blob *history, int nhistory)
{
    hid_t group;
    int status = 0;

    if (write_number(file, path, "iter", H5T_NATIVE_INT32, &state->iter) ||
        write_string(file, path, "learned_net", state->learned_net) ||
        write_number(file, path, "current_step", H5T_NATIVE_INT32, &state->current_step) ||
        write_owner(file, path, &state->owner, true) ||
        (state->owner.global_batch > 0 &&
         write_number_attribute(file, path, "global_batch", &state->owner.global_batch)) ||
        (state->has_data_cursor &&
         write_number(file, path, "data_cursor", H5T_NATIVE_UINT64, &state->data_cursor)))
        return -1;
    group = H5Gcreate2(file, "history", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    if (group < 0)
        return composing_failed(path, "write group", "history");
    for (int i = 0; i < nhistory && !status; i++)
        status = write_blob(group, path, i, &history[i]);
    H5Gclose(group);
    return status;
}

/* Writes the composed file to disk, followed by its checksum. */
static int write_bytes(const char *path, const void *bytes, size_t length)
{
    char line[CHECKSUM_BYTES + 1];
    struct file_writer writer;
    int status = file_writer_open(&writer, path);

    if (!status) {
        checksum_line(bytes, length, line);
        file_writer_put(&writer, bytes, length);
        file_writer_put(&writer, line, CHECKSUM_BYTES);
    }
    return file_writer_close(&writer, status) ? SNAPSHOT_NOT_WRITTEN : 0;
}

/* Saves and closes a composed file. status: result of composing. Called with HDF5's lock held;
 * releases the lock for the slow part, and returns without it. */
static int memory_file_save(hid_t file, const char *path, const char *what, int status)
{
    const void *bytes = NULL;
    size_t length = 0;

    if (!status)
        status = memory_file_bytes(file, path, &bytes, &length);
    h5_unlock();
    if (!status)
        status = write_bytes(path, bytes, length);
    if (file >= 0) {
        h5_lock();
        H5Fclose(file);
        h5_unlock();
    }
    if (status)
        error_context("the %s cannot be saved", what);
    return status;
}

int snapshot_write_model(const char *path, const struct snapshot_owner *owner,
                         const struct snapshot_layer *layers, int nlayers)
{
    hid_t file;

    if (snapshot_check_names(path, layers, nlayers))
        return -1;
    h5_lock();
    file = memory_file_create(path);
    return memory_file_save(file, path, "model",
                            file < 0 || compose_model(file, path, owner, layers, nlayers) ? -1 : 0);
}

int snapshot_write_state(const char *path, const struct snapshot_state *state,
                         const struct snapshot_blob *history, int nhistory)
{
    hid_t file;

    h5_lock();
    file = memory_file_create(path);
    return memory_file_save(file, path, "solver state",
                            file < 0 || compose_state(file, path, state, history, nhistory) ? -1
                                                                                            : 0);
}
