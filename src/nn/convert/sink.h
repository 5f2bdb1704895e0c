/* Destination of converted images, one after another, in constant memory: an HDF5 file or an LMDB.
 * Pictures of labels go to the same HDF5 file, or to an LMDB of their own.
 *
 * A sink writes under a temporary name until its file is complete. */
#ifndef POSEIDON_CONVERT_SINK_H
#define POSEIDON_CONVERT_SINK_H

#include "input/source.h"

/* One image to write: raw, or as an image file if encoded.bytes is not NULL. */
struct sample {
    const char *name; /* name in keys; borrowed; NULL: keys are numbers alone */
    int label;
    const struct record
        *raw;              /* bytes (LMDB: or floats), C x H x W; borrowed; its label is ignored */
    struct strbuf encoded; /* borrowed */
    const struct record *picture; /* picture of labels, bytes, 1 x H x W; NULL: `label`; borrowed */
};

struct sink;

struct sink_i {
    int (*add)(struct sink *sink, const struct sample *sample);
    int (*close)(struct sink *sink, int status); /* does the work of sink_close */
};

struct sink { /* first member of each kind's own struct */
    const struct sink_i *i;
    char *path;     /* final name; owned */
    char *temp;     /* temporary name; owned */
    uint64_t count; /* count of images added */
};

struct sink_options {
    const char *source;      /* value of the attribute `source` */
    int gzip;                /* HDF5: level of compression, 1..9; 0: none */
    int nclasses;            /* count of class names; 0: none known */
    char *const *class_name; /* borrowed */
    const char *pictures;    /* LMDB: path of the LMDB of pictures of labels; NULL: none */
};

/* Creates an HDF5 sink: `data` uint8 N,C,H,W, `label` int32 N (pictures of labels: uint8
 * N,1,H,W), attributes `source` and `classes`.
 * All images have the first image's shape: sink_add fails for others, and names both sizes. */
int sink_create_hdf5(const char *path, const struct sink_options *o, struct sink **out);

/* Creates an LMDB sink of Datum messages, with keys "%08d_NAME", or "%010d" without names, as
 * Caffe's tools make them. Class names are in classes.txt beside the data. Images may differ in
 * size. Fails in a build without liblmdb. */
int sink_create_lmdb(const char *path, const struct sink_options *o, struct sink **out);

/* Returns true if `path` holds nothing but an LMDB, which `force` may remove. */
bool sink_is_lmdb_folder(const char *path);

static inline int sink_add(struct sink *sink, const struct sample *sample)
{
    return sink->i->add(sink, sample);
}

/* Completes and names the sink's file if `status` is 0, else removes the file; frees the sink and
 * sets it to NULL. NULL is allowed. Returns the status; after a failure no file is left. */
static inline int sink_close(struct sink **sink, int status)
{
    struct sink *open = *sink;

    *sink = NULL;
    return open ? open->i->close(open, status) : status;
}

#endif
