/* The source: where samples come from. A data layer owns one source and a feeder around it.
 *
 * A source gives records by number, in any order. The feeder decides on order, sharding over ranks,
 * wrap-around and shuffling, the same for every kind of source. */
#ifndef POSEIDON_INPUT_SOURCE_H
#define POSEIDON_INPUT_SOURCE_H

#include "engine/tensor.h"
#include "input/class_names.h"
#include "input/format/image.h"
#include "input/watch.h"

struct source;

enum source_type { SOURCE_U8, SOURCE_F32 };

/* One record, such as an image, and the memory for reading, which is reused. All zero is empty. */
struct record {
    struct shape shape; /* C,H,W */
    enum source_type type;
    const void *data; /* C x H x W; points into the members below, valid until the next reading */
    const struct image *image; /* image whose pixels `data` points to, H x W x C, not yet resized to
                                  `shape`; NULL once record_to_planes ran */
    float label;               /* the first label */
    const float *labels;       /* the source's labels, if a record has several; NULL: one label */
    const struct image *label_image; /* label of each pixel of `image`; NULL: `label` for all */
    struct strbuf file, planes;      /* the record as stored; its planes, C x H x W */
    struct image decoded, resized;   /* the decoded image; scratch memory for resizing */
    struct strbuf cut;               /* memory for transform_apply */
    struct strbuf label_file;        /* the picture of labels as stored; empty: none */
    struct image label_decoded;      /* the decoded picture of labels */
    bool mirror;                     /* true if a transform that mirrors is to mirror this one */
    bool damaged; /* true if reading failed because of the record's content, not the disk */
};

static inline const float *record_labels(const struct record *record)
{
    return record->labels ? record->labels : &record->label;
}

void record_free(struct record *record);

/* Sets the record to `image`, to be resized later to height x width; 0: the image's own size. */
int record_set_image(struct record *record, const struct image *image, int height, int width);

/* Fails unless the decoded picture of labels is as large as the decoded image `name`. */
int record_check_labels(const struct record *record, const char *name);

/* Makes `data` C x H x W planes: resizes and converts the record's image, if there is one. */
int record_to_planes(struct record *record);

/* A kind of source. It gives records in blocks (`read`) or singly (`read_record`); the other slot
 * is NULL. */
struct source_i {
    const char *name; /* such as "hdf5" */
    void (*close)(struct source *source);
    /* Reads `count` records starting at `first` (both inside the source). out[f] receives count
     * records of field f in its type, NULL to skip the field. Called from one thread at a time. */
    int (*read)(struct source *source, uint64_t first, uint64_t count, void *const *out);
    /* Reads and decodes one image with its label. Images may differ from field 0 and from each
     * other in size and type. Called from several threads at once, each with its own record, so
     * that decoding runs in parallel. */
    int (*read_record)(struct source *source, uint64_t number, struct record *out);
    /* Reads a record's label without decoding its image. NULL: not possible, or block source. */
    int (*read_label)(struct source *source, uint64_t number, float *label);
    /* Fails if another program is writing to the file, so that records read until now may differ
     * from their content at opening. Called once a batch. NULL: this kind cannot tell. */
    int (*check)(struct source *source);
    /* Lets the system fetch `count` records from `first` on, which will be read soon. Any thread at
     * any time. Reports no errors: reading will. NULL: this kind cannot read ahead. */
    void (*expect)(struct source *source, uint64_t first, uint64_t count);
};

/* One part of a record: an image, a label, or one of HDF5Data's named data sets. */
struct source_field {
    char *name;         /* owned */
    struct shape shape; /* shape of one record, without the record axis; naxes 0 for a label */
    enum source_type type;
};

#define SOURCE_MAX_FIELDS 16

struct source {
    const struct source_i *i;
    char *path;                 /* owned; path as opened, for messages */
    struct watch watch;         /* files that were opened; the feeder checks whether they change */
    uint64_t nrecords;          /* > 0 */
    const char *remark;         /* image_label_remark of the first record; NULL for none */
    struct class_names folders; /* class names from the folders of an image list; owned */
    bool scattered;             /* set by the feeder: records are read in a random order */
    int nfields;
    struct source_field field[SOURCE_MAX_FIELDS];
};

/* Opens the images of a Data layer. The content of `path` decides its kind:
 *
 * - an HDF5 file with `data` (N,C,H,W), uint8 or float, and, if with_labels, `label` (N), any
 *   integer or float type. Blocks are read by hyperslab, never the whole file;
 * - an LMDB or LevelDB of Caffe's Datum messages, in the order of keys. Encoded images are decoded
 *   to `color`; raw images keep their channels.
 *
 * Field 0 is data, with the first record's shape; field 1 is label (SOURCE_F32). Errors: missing,
 * truncated, unknown kind, wrong axes or type, unequal N, no records, first record damaged. */
int source_open_images(const char *path, bool with_labels, enum image_color color,
                       struct source **out);

enum image_labels {
    IMAGE_LABELS_ONE,    /* one label, or nlabels labels, of an image */
    IMAGE_LABELS_NONE,   /* a plane of labels: `ignore` for every pixel. From here on, Caffe's order
                          */
    IMAGE_LABELS_ALL,    /* a plane of labels: the image's one label for every pixel */
    IMAGE_LABELS_PICTURE /* a plane of labels: the picture of labels on the list */
};

struct image_list_options {
    const char *root;       /* text put before every path, with no slash added; "" for none */
    int height, width;      /* size to which images are resized; 0: their own size */
    enum image_color color; /* ImageData's is_color: IMAGE_COLOR or IMAGE_GRAY */
    int nlabels;            /* number of labels (reals) of an image; 0: one integer label */
    enum image_labels labels;
    int ignore;            /* label of pixels that have no label */
    const char *base_file; /* file beside which the root is tried if not found as given; or NULL */
};

/* Opens ImageData's `list`: a line "PATH LABEL" for every image (list_read_file). Fields are those
 * of source_open_images, with nlabels labels; records are read singly. With planes of labels, field
 * 1 is 1 x H x W of the first image, and field 2 the image's rows and columns in the batch, 1 x 1 x
 * 2. Errors: list missing or empty, a line without a label (with its number), first image missing
 * or damaged, a picture of labels that is none, or has another size than its image. */
int source_open_image_list(const char *list, const struct image_list_options *o,
                           struct source **out);

/* Converts n values of `type` to floats. */
void source_floats(const void *data, enum source_type type, size_t n, float *out);

/* Reads record n of any kind of source as C x H x W. From block sources, reads field 0 and, if the
 * source has it, field 1. */
int source_read_record(struct source *source, uint64_t n, struct record *out);

/* Opens HDF5Data's list: `list` is a text file of HDF5 file names, separated by white space (the
 * message for an .h5 given by mistake says so). Field f is the data set names[f], read as float;
 * all data sets have the same first axis. File names are tried as given, then beside the list. */
int source_open_hdf5_list(const char *list, int nnames, const char *const *names,
                          struct source **out);

/* Cheap fingerprint of a source: the number of records, and SHA-256 of the first and the last
 * record. Image files and Datums are hashed as stored, not decoded. */
struct source_mark {
    uint64_t nrecords;
    unsigned char first[32], last[32];
};

/* Reads the fingerprint. Call before a feeder owns the source. */
int source_read_mark(struct source *source, struct source_mark *out);

/* Summary of a source for the user. `labelled` is false where a record has no label or several. */
struct source_survey {
    const char *path; /* borrowed from the source */
    uint64_t nrecords;
    struct shape shape; /* shape of the first record, C,H,W */
    enum source_type type;
    bool labelled;
    uint64_t nread;    /* number of labels that were read, spread over all records */
    float first, last; /* labels of the first and the last record */
    float least, most; /* least and greatest label that was read */
    bool fraction;     /* true if some label is not a whole number */
};

/* Reads the first, a middle and the last record, and all labels. Where labels can only be read with
 * their images, stops reading more after about `seconds`. Call before a feeder owns the source. */
int source_look(struct source *source, double seconds, struct source_survey *out);

/* Returns true if the records seem to be sorted by label, like images converted folder by folder
 * without shuffling. Compares the labels of up to 64 records at the beginning with as many spread
 * over the source. *nlabels: how often the label changes in the first *nrecords records, plus 1.
 * Returns false if there are few records, if nearly all labels are equal, or if labels cannot be
 * read. Call before a feeder owns the source. */
bool source_is_sorted(struct source *source, int *nrecords, int *nlabels);

static inline void source_close(struct source *source)
{
    if (source)
        source->i->close(source);
}

#endif
