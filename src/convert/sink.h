/* Where converted images go, one after another, in constant memory: an HDF5 file or an LMDB.
 *
 * What is written has a temporary name until it is complete. */
#ifndef POSEIDON_CONVERT_SINK_H
#define POSEIDON_CONVERT_SINK_H

#include "input/source.h"

/* One image to be written: raw, or as an image file where encoded.bytes is not NULL. */
struct sample {
    const char *name; /* for keys; borrowed; NULL: keys are numbers alone */
    int label;
    const struct record
        *raw; /* bytes (LMDB: or floats), C x H x W; borrowed; its label is not looked at */
    struct strbuf encoded; /* borrowed */
};

struct sink;

struct sink_i {
    int (*add)(struct sink *sink, const struct sample *sample);
    int (*commit)(struct sink *sink); /* completes what was added, and gives it its name */
    void (*close)(struct sink *sink); /* removes what has its temporary name still; frees */
};

struct sink { /* first member of each kind's own struct */
    const struct sink_i *i;
    char *path;     /* owned; the final name */
    char *temp;     /* owned; the name until then */
    uint64_t count; /* added */
};

struct sink_options {
    const char *source;      /* for the attribute `source` */
    int gzip;                /* HDF5: 0, or 1..9 */
    uint64_t count;          /* HDF5: the number of images to come, exactly; 0: not known */
    int nclasses;            /* names of classes, 0: none are known */
    char *const *class_name; /* borrowed */
    bool force;              /* replace existing files */
};

/* HDF5: `data` uint8 N,C,H,W, `label` int32 N, attributes `source` and `classes`. All images have
 * the first one's shape: sink_add fails for others, and naming both sizes. */
int sink_create_hdf5(const char *path, const struct sink_options *o, struct sink **out);

/* LMDB of Datum messages, keys "%08d_NAME", or "%010d" without names, as Caffe's tools make them;
 * class names as classes.txt beside them. Images may differ in size. Fails where liblmdb is not
 * built in. */
int sink_create_lmdb(const char *path, const struct sink_options *o, struct sink **out);

/* Whether `path` holds nothing but an LMDB: what `force` may remove. */
bool sink_is_lmdb_folder(const char *path);

static inline int sink_add(struct sink *sink, const struct sample *sample)
{
    return sink->i->add(sink, sample);
}

/* Completes and names what was added, and frees the sink; when it fails nothing is left. */
static inline int sink_commit(struct sink *sink)
{
    int status = sink->i->commit(sink);

    sink->i->close(sink);
    return status;
}

/* Removes what was added and frees the sink. NULL is fine. */
static inline void sink_discard(struct sink *sink)
{
    if (sink)
        sink->i->close(sink);
}

#endif
