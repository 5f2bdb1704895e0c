/* The source: where samples come from. A data layer owns one source and a feeder around it.
 *
 * A source is random access by record number; order, sharding over ranks, wrap-around and shuffling
 * are the feeder's, so that they are the same for every kind of source. */
#ifndef POSEIDON_INPUT_SOURCE_H
#define POSEIDON_INPUT_SOURCE_H

#include "engine/tensor.h"
#include "input/class_names.h"
#include "input/format/image.h"
#include "input/watch.h"

struct source;

enum source_type { SOURCE_U8, SOURCE_F32 };

/* An image that was read by itself. All zero is empty; its memory is used again and again. */
struct record {
    struct shape shape; /* C,H,W */
    enum source_type type;
    const void *data;           /* C x H x W; into the members below, until the next reading */
    const struct image *image;  /* NULL, or data are its bytes, H x W x C, of its size: it is still
                                   to be resized to the record's; record_to_planes does both */
    float label;                /* the first one */
    const float *labels;        /* the source's, where it has several; NULL: one */
    struct strbuf file, planes; /* as stored; C x H x W */
    struct image decoded, resized; /* nothing is resized but `decoded` and planes */
    struct strbuf cut;             /* transform_apply's */
    bool damaged; /* reading failed for what the record holds, not for where it lies */
};

static inline const float *record_labels(const struct record *record)
{
    return record->labels ? record->labels : &record->label;
}

void record_free(struct record *record);

/* The record is that image, yet to be resized: 0: of its own size. */
int record_set_image(struct record *record, const struct image *image, int height, int width);

/* Sees to it that data are C x H x W, whatever they were. */
int record_to_planes(struct record *record);

/* Sources give their records in blocks (`read`) or one by one (`read_record`); the other slot is
 * NULL. */
struct source_i {
    const char *name; /* "hdf5" */
    void (*close)(struct source *source);
    /* Reads `count` records starting at `first` (both inside the source). out[f] receives count
     * records of field f in its type, NULL to skip the field. Called from one thread at a time. */
    int (*read)(struct source *source, uint64_t first, uint64_t count, void *const *out);
    /* Reads and decodes one image with its label. Images may differ in size from field 0's shape
     * and from each other, and in type. Called from several threads at once, each with a record of
     * its own: what takes time is done in parallel. */
    int (*read_record)(struct source *source, uint64_t number, struct record *out);
    /* Beside read_record: the label alone, without decoding; NULL: that is not possible. */
    int (*read_label)(struct source *source, uint64_t number, float *label);
    /* Fails if records that were read until now may have been others than the file had when it was
     * opened, because another program writes to it: asked once a batch. NULL: nobody can. */
    int (*check)(struct source *source);
    /* `count` records from `first` on will be read soon: the system may fetch them by then. Any
     * thread at any time; what goes wrong is for the reading to say. NULL: nothing comes of it. */
    void (*expect)(struct source *source, uint64_t first, uint64_t count);
};

/* One thing a record holds: an image, a label, one of HDF5Data's named data sets. */
struct source_field {
    char *name;         /* owned */
    struct shape shape; /* of one record, without the record axis; naxes 0 for a label */
    enum source_type type;
};

#define SOURCE_MAX_FIELDS 16

struct source {
    const struct source_i *i;
    char *path;                 /* owned; as opened, for messages */
    struct watch watch;         /* the files that were opened; the feeder looks at them */
    uint64_t nrecords;          /* > 0 */
    const char *remark;         /* image_label_remark of the first record; NULL: none */
    struct class_names folders; /* of a list's images; owned */
    bool scattered;             /* records are read in a random order, as the feeder says */
    int nfields;
    struct source_field field[SOURCE_MAX_FIELDS];
};

/* Image source of a Data layer, the kind recognised by content:
 *
 * - an HDF5 file with `data` (N,C,H,W), uint8 or float, and, where with_labels, `label` (N), any
 *   integer or float type. Read in blocks by hyperslab, never whole;
 * - a data base of Caffe's Datum messages, LMDB or LevelDB, in the order of its keys. Encoded
 * images are decoded, to `color`; raw ones are as they are.
 *
 * Fields: 0 data, of the first record's shape, 1 label (SOURCE_F32). Errors: missing, truncated,
 * not of a known kind, wrong rank or type, the two N differ, no records, first record damaged. */
int source_open_images(const char *path, bool with_labels, enum image_color color,
                       struct source **out);

struct image_list_options {
    const char *root;       /* put in front of every path as it is; "" for none */
    int height, width;      /* resized to; 0: as they are */
    enum image_color color; /* ImageData's is_color: IMAGE_COLOR or IMAGE_GRAY */
    int nlabels;            /* of an image, reals; 0: one, an integer */
    const char
        *base_file; /* where the root does not exist, it is tried beside this file; or NULL */
};

/* ImageData as Caffe means it: `list` has a line "PATH LABEL" for every image, as
 * list_read_file reads it. Fields as above, but for nlabels; records one by one. Errors: list
 * missing or empty, a line without a label (with its number), first image missing or damaged. */
int source_open_image_list(const char *list, const struct image_list_options *o,
                           struct source **out);

/* n values of that type, as floats. */
void source_floats(const void *data, enum source_type type, size_t n, float *out);

/* Record number n as C x H x W, whatever the kind: of block sources it reads field 0 and, where
 * there, 1. */
int source_read_record(struct source *source, uint64_t n, struct record *out);

/* HDF5Data as Caffe means it: `list` is a text file of white-space separated HDF5 names (an .h5
 * given here by mistake is recognised and said). Field f is the data set names[f], read as float;
 * all have the same first axis. Names in the list are tried as given, then beside the list file. */
int source_open_hdf5_list(const char *list, int nnames, const char *const *names,
                          struct source **out);

/* What tells a source's contents from another's at little cost: the number of its records, and
 * SHA-256 of the first and the last of them, in the form in which they are stored where images are
 * read one by one. */
struct source_mark {
    uint64_t nrecords;
    unsigned char first[32], last[32];
};

/* Before a feeder has the source. */
int source_read_mark(struct source *source, struct source_mark *out);

/* What a source holds, for a person to look at. Labels are one number each; where records have none
 * (or more), `labelled` is false. */
struct source_survey {
    const char *path; /* borrowed from the source */
    uint64_t nrecords;
    struct shape shape; /* of the first record, C,H,W */
    enum source_type type;
    bool labelled;
    uint64_t nread;    /* records whose labels were read, spread over all */
    float first, last; /* labels of the first and of the last record */
    float least, most; /* labels that were read */
    bool fraction;     /* some of them is no whole number */
};

/* Reads the first record, one in the middle and the last, and labels: for about `seconds` at most
 * where records have to be read for them, else all of them. Before a feeder has the source. */
int source_look(struct source *source, double seconds, struct source_survey *out);

/* Whether records of one label follow each other, as images of a folder for every class do that
 * were not shuffled: from the labels of up to 64 records at the beginning and as many all over the
 * source. *nlabels: how many times a label begins in the *nrecords first records. False of few
 * records, where nearly all have one label, and where labels cannot be read. Before a feeder has
 * the source. */
bool source_is_sorted(struct source *source, int *nrecords, int *nlabels);

static inline void source_close(struct source *source)
{
    if (source)
        source->i->close(source);
}

#endif
