/* The layer: a Caffe layer's shapes, parameters and operators.
 *
 * A layer type is one table in one file, and one line of LAYERS (layers_internal.h). Set-up has two
 * steps: `setup` computes shapes and needs neither engine nor data (`poseidon summary` stops
 * there); building creates the operators. Most layers only name their operator, which then runs in
 * place of forward and backward. */
#ifndef POSEIDON_LAYERS_LAYER_H
#define POSEIDON_LAYERS_LAYER_H

#include "engine/engine.h"
#include "engine/op_check.h"
#include "input/bad_records.h"
#include "spec/netdef.h"
#include "util/sha256.h"

struct class_names; /* input/class_names.h */
struct feeder;      /* input/feeder.h */
struct layer;
struct source_survey; /* input/source.h */
struct strbuf;
struct trace;

/* The size that a user gives a data layer's top. */
struct input_shape {
    const char *top;    /* name, not ended by NUL; borrowed */
    int letters;        /* length of the name */
    struct shape shape; /* without the batch */
};

/* Settings of data layers besides their definition; the same for all layers of a net. */
struct layer_env {
    bool look_only; /* no batch is read; passes run on blank input. Existing sources are opened for
                       their shapes */
    int batch;      /* batch size per rank of the first data layer; 0: the definition's */
    int64_t first_batch; /* first data layer's batch size in the definition, to which other data
                            layers' are in proportion; set by the net */
    const int64_t *input_chw; /* size that replaces the images' C,H,W with look_only; or NULL */
    const struct input_shape
        *inputs; /* the user's sizes of single tops, with look_only; borrowed */
    int ninputs;
    bool fake; /* the sizes are those of --fake-data, not --input-shape: notices say so */
    const char
        *base_file; /* relative paths not found as given are tried beside this file; or NULL */
    /* The part of the global sample order that this rank reads, see input/feeder.h. */
    int rank, nranks;      /* index among the workers; number of workers */
    int row;               /* consecutive batches per turn of this rank; 0 means 1 */
    uint64_t before, turn; /* samples per turn of all lower ranks; of all ranks. turn 0: every rank
                              has equally many */
    uint64_t first_sample;
    uint64_t seed;
    struct bad_record_policy care; /* tolerance of damaged records; all zero: each is an error */
    const struct op_ranks *ranks;  /* ranks over whose batches BatchNorm in training computes its
                                      statistics (train --sync-bn); borrowed, outlives the net's ops;
                                      NULL: each rank uses its own batch */
    bool shuffle;                  /* data layers of TRAIN draw a new order in each epoch */
    bool no_bias_decay;  /* parameters of one axis get decay_mult 0, whatever the file says */
    struct trace *trace; /* records the feeders' reading; borrowed; NULL: no recording */
    char **notices;      /* notices for the user, one a line; layers append; owned by the caller */
};

/* A layer's declaration of a parameter. For each declaration the net makes a struct param, or
 * shares an existing struct param by name. */
struct param_def {
    struct shape shape;
    const Caffe__FillerParameter *filler; /* borrowed from the definition; NULL: use `constant` */
    float constant;
    bool statistic; /* see struct param */
};

/* Fingerprint of a data layer's data, for comparison between ranks and runs. */
struct layer_data_mark {
    bool known;        /* false: the layer reads nothing */
    bool own;          /* each rank has its own source, by definition (shared_file_system: false) */
    uint64_t nrecords; /* records of the source */
    char first[SHA256_HEX], last[SHA256_HEX]; /* SHA-256 of the first and last record */
    char mean[SHA256_HEX];                    /* SHA-256 of the mean's floats; "": no mean */
};

#define LAYER_MAX_PARAMS 4

enum { LOSS_LABELS = 1 }; /* index of the bottom that holds a loss's labels */

/* How a data layer prepares images, so that other images can be prepared alike. Borrows from the
 * layer. */
struct layer_images {
    const Caffe__TransformationParameter *transform; /* NULL: none */
    struct shape record;  /* C,H,W before the transform; naxes 0: unknown (source missing) */
    bool as_stored;       /* each image keeps its own size */
    const char *source;   /* path of the source; NULL: the source is missing */
    char *const *classes; /* names of the classes; NULL: the source has none */
    int nclasses;
    const struct class_names *names; /* names of the classes or of a list's folders; NULL: none */
};

/* Gives data layers with equally many records, such as images and their labels, the same order: the
 * strongest shuffle and the largest rand_skip, with a notice. Between set-up and build. */
int layer_align_data(const struct layer *layers, int n, const struct layer_env *env);

/* Fills `out` for a layer that reads files, of images or other values. After setup. */
void data_images(const struct layer *layer, struct layer_images *out);

/* Fails if two data layers name the class of one label differently. */
int layer_compare_classes(const struct layer_images *one, const struct layer_images *other);

/* Fails if a data layer and the file `path` name the class of one label differently. names: the
 * file's names, one a line; NULL: none. */
int layer_compare_told_classes(const char *path, const char *names,
                               const struct layer_images *data);

struct layer_i {
    const char *type;              /* name in Caffe */
    struct op_count bottoms, tops; /* both zero: the operator's counts */
    bool is_data;                  /* a source of samples: has no bottoms */
    bool from_program;         /* a data layer that reads nothing: the program writes its tops */
    bool reads_labels;         /* bottom 0 holds scores of classes, bottom 1 labels */
    bool is_score;             /* top 0 is a score (larger is better), not a loss */
    bool transforms;           /* reads transform_param */
    bool no_in_place;          /* a top named like its bottom is an error */
    unsigned no_gradient_to;   /* bit b: bottom b never receives a gradient (labels); adds to the
                                  operator's own mask */
    unsigned drops_gradient;   /* bit b: asking for a gradient of bottom b, which gets none, has no
                                  effect, as in Caffe; without the bit it is an error */
    unsigned no_gradient_from; /* bit t: top t passes no gradient back (indices, counts) */
    bool normalizes;           /* a loss with loss_param's ignore_label and normalization */
    enum loss_normalization normalization; /* the default of a loss that `normalizes` */
    bool auto_tops;                        /* a loss whose missing tops are added, without a name */
    /* True if top 0 is a mean over the batch, so that the mean over ranks equals one rank's value
     * for all samples. False for a sum, or a value per sample. After setup. NULL: never. */
    bool (*means)(const struct layer *layer);
    /* Work in place. A top named like its bottom shares the bottom's blob only if no backward needs
     * the old values. Otherwise the top gets a blob of its own. */
    bool own_top;            /* never works in place */
    bool keeps_top;          /* backward reads the top's values */
    bool keeps_top_in_place; /* backward reads the top's values if the layer works in place */
    bool keeps_sign_only;    /* backward reads only the top's signs, so a layer with only_masks may
                                overwrite the top */
    bool only_masks; /* in place, keeps signs, or zeroes elements whose gradient is 0 (Dropout) */
    bool passes_memory; /* the tops may share the bottom's memory (Split, Reshape) */
    bool (*wants_own_top)(
        const struct layer
            *layer); /* backward reads the bottom's values, which work in place would overwrite:
                        training needs another top. Before setup; bottoms are known. NULL: never */
    /* True if the layer's op can also do the previous layer's work (a Scale in place on a
     * BatchNorm's top). Before setup. NULL: never. */
    bool (*merges)(const struct layer *layer, const struct layer *before);
    /* True if the layer's operator (or `merged`'s operator) could also apply a ReLU in place on the
     * top. Before build. NULL: never. */
    bool (*takes_relu)(const struct layer *layer);
    bool takes_relu_last; /* takes the ReLU only if no other op does: saves time in forward alone */
    bool takes_relus_before; /* the operator could apply ReLUs in place on its bottoms */
    bool ignores_bottoms;    /* backward does not read the bottoms' values */
    /* True if the gradient of params[0] may travel as its factors, the rows of tops[0]'s gradient
     * and of bottoms[0]'s values. NULL: the gradient is no such product. After setup. */
    bool (*factorable)(const struct layer *layer);
    /* Checks the definition; sets shapes of tops (initially the first bottom's), flops and the op's
     * arguments; declares parameters with layer_declare_param. It checks only the shapes and
     * arguments that it computes with; op_check_call then checks the rest for the operator. Error
     * messages leave out the layer's name, which the net adds. A layer type that needs the
     * environment has setup_in in place of setup. Both may be NULL. */
    int (*setup)(struct layer *layer);
    int (*setup_in)(struct layer *layer, const struct layer_env *env);
    enum op_kind op;    /* kind of the operators */
    bool op_per_bottom; /* one operator per bottom and its top; else one operator for all */
    /* Adds arguments known only when the op is made. NULL: none. */
    void (*arguments)(const struct layer *layer, struct op_args *args);
    /* Prepares a type without operators for `forward`. NULL: layer_build creates operators. */
    int (*build)(struct layer *layer, struct engine *engine);
    int (*forward)(struct layer *layer, const struct pass *pass);  /* NULL: runs layer->ops */
    int (*backward)(struct layer *layer, const struct pass *pass); /* NULL: runs layer->ops */
    void (*destroy)(struct layer *layer); /* frees `state`; NULL: free() is enough */
    /* Data layers only. mark and look: between setup and build; take the fingerprint, or survey the
     * source for `seconds` (out->path NULL: no source). seek: continues at that sample of the
     * global order. */
    int (*mark)(const struct layer *layer, struct layer_data_mark *out);
    int (*look)(const struct layer *layer, double seconds, struct source_survey *out);
    /* Gets the layer's preparation of images. After setup. NULL: its values are not images. */
    void (*images)(const struct layer *layer, struct layer_images *out);
    int (*seek)(struct layer *layer, uint64_t first_sample);
    /* DummyData only: turns a top into labels below `classes` (0: any number). After setup. */
    int (*make_labels)(struct layer *layer, int top, size_t classes, const struct layer_env *env);
};

struct layer {
    const struct layer_i *i;
    const struct layer_def *def;        /* borrowed from the net's definition */
    const Caffe__LayerParameter *param; /* = def->param */
    int index;                          /* index in the net */
    bool train;                         /* TRAIN phase */
    int nbottoms, ntops, nparams;
    struct blob **bottoms,
        **tops; /* arrays owned, blobs the net's; tops include those added to losses */
    struct param *params[LAYER_MAX_PARAMS]; /* the net's; in a test net the training net's */
    struct param_def param_defs[LAYER_MAX_PARAMS];
    bool *propagate; /* per bottom: backward writes its gradient */
    bool needs_backward;
    struct layer *merged; /* layer before, merged into this layer's op (layer_i.merges); or NULL */
    struct layer *fused;  /* ReLU after this layer, done by this layer's op (net/fuse.c); or NULL */
    struct layer **taken; /* per bottom: ReLU before this layer, done by this layer's op; or NULL */
    bool joins;           /* passes wait for the same layer of all ranks (layer_env.ranks) */
    bool idle;            /* another layer's op does this layer's work; passes do nothing */
    bool assumed;         /* the shape of a data layer's tops is a guess */
    int whole_top;     /* DummyData: 1 + index of the top cut to whole numbers (labels); 0: none */
    int64_t own_batch; /* a data layer's batch size in its definition; 0: not given */
    double flops;      /* per forward pass over the batch; a multiply-add counts as 2 */
    union op_own_args u; /* the op's arguments, set by setup */
    struct op **ops;     /* owned */
    int nops;
    struct feeder *feeder; /* a data layer's, owned; NULL before build and with look_only */
    void *state;           /* private to the layer type */
};

/* Returns the table of a layer type; NULL with a message ("... did you mean X?"). */
const struct layer_i *layer_find(const char *type);

/* Returns the name of layer type number `index`, from 0; NULL after the last. */
const char *layer_type_name(int index);

/* Returns Caffe's layer types refused for reason number `index`, from 0, separated by blanks; NULL
 * after the last. */
const char *layer_type_refused(int index, const char **reason);

/* Returns 0 if the layer type exists; else -1 with layer_find's message. */
int layer_check_type(const char *type);

/* Fails where the net has layers of types that do not exist, with a line for each such type. */
int layer_check_types(const struct net_def *def);

/* Returns how many bottoms a layer of this type takes. */
struct op_count layer_bottoms(const struct layer_i *i);

/* Returns how many tops a layer of this type has. */
struct op_count layer_tops(const struct layer_i *i);

/* Returns a mask: bit b is set if bottom b never receives a gradient. */
unsigned layer_no_gradient_to(const struct layer_i *i);

/* True if the layer is a loss or score that leaves out samples with *label. *divides: the top is
 * divided by the number of the remaining labels, which depends on the data. After setup. */
bool layer_ignores_label(const struct layer *layer, float *label, bool *divides);

/* Calls the type's setup or setup_in, then checks the operator's arguments. */
int layer_setup(struct layer *layer, const struct layer_env *env);

/* Declares a parameter of the layer, for its setup. what: its name in messages ("weight"). */
int layer_declare_param(struct layer *layer, const char *what, int naxes, const int64_t *dim,
                        const Caffe__FillerParameter *filler);

/* Appends a line that begins with the layer's name to env->notices, unless the text already has
 * this line. Text that begins with "warning: " is logged as a warning. */
int layer_notice(const struct layer *layer, const struct layer_env *env, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Merges equal notices of several layers into one line with their number. */
int layer_notices_gather(char **notices);

/* Creates the layer's operators. Fails if the engine cannot make one (engine_op_create). */
int layer_build(struct layer *layer, struct engine *engine);

/* True if the layer's operator can do the work of `next`, a layer in place on the layer's top, on
 * this engine. Before build. */
bool layer_takes(const struct layer *layer, const struct layer *next, const struct engine *engine);

/* True if the layer's operator can do the work of `before`, a layer in place on one of its bottoms,
 * on this engine. Before build. */
bool layer_takes_before(const struct layer *layer, const struct layer *before,
                        const struct engine *engine);

/* Runs the layer's forward pass, by its own function or its operators. */
int layer_forward(struct layer *layer, const struct pass *pass);

/* Runs the layer's backward pass, by its function or operators. Only with needs_backward. */
int layer_backward(struct layer *layer, const struct pass *pass);

/* Returns how often and for how long forward waited for data (feeder_waits); 0 without a feeder. */
void layer_waits(const struct layer *layer, uint64_t *times, double *seconds);

/* Returns the records read so far and *path, their source's (feeder_records); 0 and NULL without a
 * feeder. Any thread. */
uint64_t layer_records(const struct layer *layer, const char **path);

/* Appends record and file of sample number `sample` of the last batch (feeder_tell). */
void layer_tell(const struct layer *layer, uint64_t sample, struct strbuf *out);

/* Writes the engine's algorithm for the layer; "": no choice (engine_describe). After build. */
void layer_describe(const struct layer *layer, const struct engine *engine,
                    char words[ENGINE_OP_WORDS]);

/* Returns floating-point operations and bytes of one pass, summed over the layer's operators. Zero
 * if another layer does the work, and for an unneeded backward pass. After build. */
struct op_work layer_work(const struct layer *layer, enum op_pass pass);

/* Fails on an unknown filler name. */
int filler_check(const Caffe__FillerParameter *filler);

/* Fills `elems` floats of host memory by Caffe's rules (docs/caffe.md 8). fan-in and fan-out come
 * from `shape`. Draws depend on (seed, param_index) only. Fails on an unknown filler name. */
int filler_fill(const Caffe__FillerParameter *filler, const struct shape *shape, uint64_t seed,
                int param_index, float *out);

#endif
