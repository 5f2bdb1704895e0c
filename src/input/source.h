/* The source: where samples come from. A data layer owns one source and a feeder around it.
 *
 * A source is random access by record number; order, sharding over ranks, wrap-around and shuffling
 * are the feeder's, so that they are the same for every kind of source. */
#ifndef POSEIDON_INPUT_SOURCE_H
#define POSEIDON_INPUT_SOURCE_H

#include "engine/tensor.h"

struct source;

struct source_i {
    const char *name; /* "hdf5" */
    void (*close)(struct source *source);
    /* Reads `count` records starting at `first` (both inside the source). out[f] receives count
     * records of field f in its type, NULL to skip the field. Called from one thread at a time. */
    int (*read)(struct source *source, uint64_t first, uint64_t count, void *const *out);
};

enum source_type { SOURCE_U8, SOURCE_F32 };

/* One thing a record holds: an image, a label, one of HDF5Data's named data sets. */
struct source_field {
    char *name;            /* owned */
    struct shape shape;    /* of one record, without the record axis; naxes 0 for a label */
    enum source_type type;
};

#define SOURCE_MAX_FIELDS 16

struct source {
    const struct source_i *i;
    char *path;            /* owned; as opened, for messages */
    uint64_t nrecords;     /* > 0 */
    int nfields;
    struct source_field field[SOURCE_MAX_FIELDS];
};

/* Image source of a Data layer, the kind recognised by content: an HDF5 file with `data` (N,C,H,W),
 * uint8 or float, and, where with_labels, `label` (N), any integer or float type. Fields: 0 data,
 * 1 label (SOURCE_F32). Errors: missing, truncated, not of a known kind, wrong rank or type, the two
 * N differ, no records. Read by hyperslab; never loads the file whole. */
int source_open_images(const char *path, bool with_labels, struct source **out);

/* HDF5Data as Caffe means it: `list` is a text file of white-space separated HDF5 names (an .h5 given
 * here by mistake is recognised and said). Field f is the data set names[f], read as float; all have
 * the same first axis. Names in the list are tried as given, then beside the list file. */
int source_open_hdf5_list(const char *list, int nnames, const char *const *names,
                          struct source **out);

static inline void source_close(struct source *source)
{
    if (source)
        source->i->close(source);
}

#endif
