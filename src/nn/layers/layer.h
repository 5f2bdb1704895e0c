/* The layer: what a Caffe layer means - its shapes, its parameters, what it asks of the engine.
 *
 * A layer type is one table in one file, and one line of LAYERS (layers_internal.h). Setting up has
 * two steps: `setup` works on shapes alone (that is all that `poseidon summary` needs: no engine,
 * no data), and building creates the ops. Most layers say what their op is and have neither forward
 * nor backward of their own: the net then runs the op. */
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

/* A size that a user gives a top of a data layer. */
struct input_shape {
    const char *top;    /* borrowed; not ended by NUL */
    int letters;        /* of the name */
    struct shape shape; /* without the batch */
};

/* What data layers need to know besides their definition; the same for all layers of a net. */
struct layer_env {
    bool look_only; /* no batch is read: shapes only, or passes over blank input. Existing sources
                       are opened for their shapes */
    int batch;      /* > 0: replaces the batch size of the first data layer (per rank) */
    int64_t first_batch;      /* that layer's own, by which others' are scaled; the net sets it */
    const int64_t *input_chw; /* 3 sizes that replace those of images when looking only, or NULL */
    const struct input_shape *inputs; /* likewise of single tops; borrowed */
    int ninputs;
    bool fake; /* looked at for made-up samples: notices name the option that gives these sizes */
    const char
        *base_file; /* relative paths that do not exist are tried beside this file; or NULL */
    /* Which part of the global sample order this rank reads, see input/feeder.h. */
    int rank, nranks;      /* among workers */
    int row;               /* batches of this rank that follow each other there; 0: 1 */
    uint64_t before, turn; /* of ranks that have unlike numbers of samples */
    uint64_t first_sample;
    uint64_t seed;
    struct bad_record_policy care; /* with damaged data; all zero: an error */
    const struct op_ranks *ranks;  /* by which BatchNorm in training takes the batch of all ranks
                                      (train --sync-bn); borrowed, outlives the net's ops; NULL:
                                      each rank normalises by its own */
    bool shuffle;                  /* data layers of TRAIN have a new order in each epoch */
    bool no_bias_decay;  /* parameters of one axis have decay_mult 0, whatever the file says */
    struct trace *trace; /* feeders record there when they read; borrowed; NULL: they do not */
    char **notices; /* things to say aloud are appended here, one a line; owned by the caller */
};

/* A parameter as the layer declares it; the net makes a struct param of it, or shares one by name.
 */
struct param_def {
    struct shape shape;
    const Caffe__FillerParameter *filler; /* borrowed from the definition; NULL: `constant` */
    float constant;
    bool statistic; /* see struct param */
};

/* A fingerprint of a data layer's data, by which ranks and runs compare them. */
struct layer_data_mark {
    bool known;                               /* false: the layer reads nothing */
    bool own;                                 /* each rank has a source of its own, by intent */
    uint64_t nrecords;                        /* of the source */
    char first[SHA256_HEX], last[SHA256_HEX]; /* of its first and last record */
    char mean[SHA256_HEX];                    /* of the mean, as floats; "": no mean */
};

#define LAYER_MAX_PARAMS 4

enum { LOSS_LABELS = 1 }; /* the bottom of a loss that has them */

/* How a data layer prepares images, so that other images can be prepared alike. Borrowed from the
 * layer. */
struct layer_images {
    const Caffe__TransformationParameter *transform; /* NULL: none */
    struct shape record;  /* C,H,W before the transform; naxes 0: unknown, the source is missing */
    bool as_stored;       /* each image keeps its own size */
    const char *source;   /* path; NULL: the source is missing */
    char *const *classes; /* names of the classes, if the source has them */
    int nclasses;
    const struct class_names *names; /* these, or a list's folders; NULL: none */
};

/* Gives data layers of a net with as many records the same order, such as images and their labels:
 * shuffle and rand_skip of one hold for all, with a notice. After set-up, before any is built. */
int layer_align_data(const struct layer *layers, int n, const struct layer_env *env);

/* What a layer that reads files knows of them, be they images or not. After setup. */
void data_images(const struct layer *layer, struct layer_images *out);

/* Fails if two data layers name the class of one label differently. */
int layer_compare_classes(const struct layer_images *one, const struct layer_images *other);

/* Fails if a data layer and a file at `path` name the class of one label differently. names: the
 * file's names, one a line; NULL: none. */
int layer_compare_told_classes(const char *path, const char *names,
                               const struct layer_images *data);

struct layer_i {
    const char *type;              /* Caffe's name */
    struct op_count bottoms, tops; /* neither given: as many as its operator takes */
    bool is_data;                  /* a source of samples: has no bottoms */
    bool from_program;       /* of those, one that holds what a program puts there: reads nothing */
    bool reads_labels;       /* compares scores of classes, bottom 0, with labels, bottom 1 */
    bool is_score;           /* top 0 is the better the larger, and of no loss */
    bool transforms;         /* reads transform_param */
    bool no_in_place;        /* refuses a top named like its bottom */
    unsigned no_gradient_to; /* bit b: bottom b never receives a gradient (labels), beside those
                                that the operator gives none */
    unsigned drops_gradient; /* of those, the ones whose wish for a gradient is passed over in
                                silence, as   Caffe does; of the others it is an error */
    unsigned no_gradient_from; /* bit t: nothing flows back through top t (indices, counts) */
    bool normalizes;           /* a loss that takes loss_param's ignore_label and normalization */
    enum loss_normalization normalization; /* of those: where the file says nothing */
    bool auto_tops;                        /* a loss: tops that it lacks are added, unnamed */
    /* Whether top 0 is a mean over the batch, so that the mean over ranks is what one rank with all
     * samples has; else it is a sum, or has a place for each sample. After setup. NULL: it is no
     * mean. */
    bool (*means)(const struct layer *layer);
    /* Who may work in place. A top named like its bottom is that very blob only if nobody's
     * backward misses the old values; else the net quietly gives it memory of its own. */
    bool own_top;            /* cannot work in place at all */
    bool keeps_top;          /* backward reads its top's values */
    bool keeps_top_in_place; /* the same, only where the layer itself works in place */
    bool keeps_sign_only;    /* of those, only the sign matters: what only masks may follow */
    bool only_masks;         /* in place it leaves signs as they are, or makes 0 of what then has no
                                gradient (Dropout) */
    bool passes_memory;      /* its tops may be its bottom's memory (Split, Reshape) */
    bool (*wants_own_top)(
        const struct layer *layer); /* backward reads its bottom's values: cannot be
                    trained in place. Asked before setup, bottoms are known; NULL: no */
    /* Its op does the work of the layer before it too (a Scale behind a BatchNorm whose top it
     * works on in place). Asked before setup; NULL: never. */
    bool (*merges)(const struct layer *layer, const struct layer *before);
    /* Whether its operator, or that of the layer merged, could do the work of a ReLU in place
     * behind it, too. Asked before build; NULL: never. */
    bool (*takes_relu)(const struct layer *layer);
    bool takes_relu_last;    /* if no other will: forward has it for nothing, backward does not */
    bool takes_relus_before; /* its operator would do that of ReLUs in place on its bottoms */
    bool ignores_bottoms;    /* backward does not read its bottoms' values */
    /* The gradient of params[0] is a product, tops[0]'s gradient by bottoms[0]'s values, row by
     * row: whether the layer's own may travel as its factors. NULL: it is no product. After setup.
     */
    bool (*factorable)(const struct layer *layer);
    /* Checks the definition, sets tops[i]->value.shape, which is the first bottom's until then,
     * flops and the op's own arguments, declares parameters with layer_declare_param. Of the
     * bottoms' shapes and of arguments it checks what it computes with: its operator is asked
     * about the rest behind it (op_check_call). Errors need not name the layer: the net adds it.
     * A layer type that needs the environment has setup_in in place of setup; both may be NULL. */
    int (*setup)(struct layer *layer);
    int (*setup_in)(struct layer *layer, const struct layer_env *env);
    /* Returns the top's elements along spatial axis i for `in` of the bottom; below 1: too few for
     * the layer's window. Asked once its arguments are known. NULL: as many as the bottom has, or
     * not known. */
    int64_t (*along)(const struct layer *layer, int i, int64_t in);
    enum op_kind op;    /* what layer->ops are */
    bool op_per_bottom; /* one for each bottom and the top of its number; else one for all */
    /* What is known of its arguments only when the op is made. NULL: nothing. */
    void (*arguments)(const struct layer *layer, struct op_args *args);
    /* Instead of these: makes what forward needs. */
    int (*build)(struct layer *layer, struct engine *engine);
    int (*forward)(struct layer *layer, const struct pass *pass);  /* NULL: that of layer->ops */
    int (*backward)(struct layer *layer, const struct pass *pass); /* NULL: that of layer->ops */
    void (*destroy)(struct layer *layer); /* frees state; NULL: that is one piece of memory */
    /* Data layers only: between setup and build, what tells their data from others', and what a
     * person wants to know of it, reading for `seconds` (out->path NULL: nothing is read);
     * jump to that place of the global order. */
    int (*mark)(const struct layer *layer, struct layer_data_mark *out);
    int (*look)(const struct layer *layer, double seconds, struct source_survey *out);
    /* Before build; NULL: values that are no images. */
    void (*images)(const struct layer *layer, struct layer_images *out);
    int (*seek)(struct layer *layer, uint64_t first_sample);
    /* DummyData alone: makes labels of a top, of `classes` classes, 0: of any number. After setup.
     */
    int (*make_labels)(struct layer *layer, int top, size_t classes, const struct layer_env *env);
};

struct layer {
    const struct layer_i *i;
    const struct layer_def *def;        /* borrowed from the net's definition */
    const Caffe__LayerParameter *param; /* = def->param */
    int index;                          /* place in the net */
    bool train;                         /* TRAIN phase */
    int nbottoms, ntops, nparams;
    struct blob **bottoms, **tops; /* the arrays are the layer's, the blobs the net's. Automatic
                                      tops of loss layers are here too */
    struct param *params[LAYER_MAX_PARAMS]; /* the net's, or the training net's in a test net */
    struct param_def param_defs[LAYER_MAX_PARAMS];
    bool *propagate; /* per bottom: backward writes its gradient */
    bool needs_backward;
    struct layer *merged; /* the layer before, whose work this one's op does, or NULL */
    struct layer *fused;  /* the layer behind, likewise (net/fuse.c), or NULL */
    struct layer **taken; /* per bottom: the layer before, likewise, or NULL */
    bool joins;           /* its passes wait for the same layer of all ranks (layer_env.ranks) */
    bool idle;            /* another layer does this one's work: no op, passes do nothing */
    bool assumed;         /* a data layer: its shape stands nowhere and was assumed */
    int whole_top;        /* DummyData: number, from 1, of a top that gets whole numbers; 0: none */
    int64_t own_batch;    /* a data layer's, as its definition says; 0: nothing says */
    double flops;         /* of one forward pass over the batch, a multiply-add counted as 2 */
    union op_own_args u;  /* of the op, as setup says */
    struct op **ops;      /* owned */
    int nops;
    struct feeder *feeder; /* a data layer's, owned; NULL before build, or when only looked at */
    void *state;           /* the layer's own */
};

/* The table of a layer type; NULL with the message "unknown layer type: X; did you mean Y?". */
const struct layer_i *layer_find(const char *type);

/* The name of layer type number `index`, from 0; NULL after the last. */
const char *layer_type_name(int index);

/* Names, separated by blanks, of Caffe's layer types that are refused for one reason, by number
 * from 0; NULL after the last. */
const char *layer_type_refused(int index, const char **reason);

/* 0 if the layer type exists; else -1 with layer_find's message. */
int layer_check_type(const char *type);

/* Fails where the net has layers of types that do not exist, with a line for each such type. */
int layer_check_types(const struct net_def *def);

/* How many bottoms a layer of this type takes. */
struct op_count layer_bottoms(const struct layer_i *i);

/* How many tops a layer of this type has. */
struct op_count layer_tops(const struct layer_i *i);

/* Bit b is set if bottom b never receives a gradient. */
unsigned layer_no_gradient_to(const struct layer_i *i);

/* Whether the layer is a loss or a score that passes over *label. *divides: its top is divided by
 * the number of the other labels, so that the divisor depends on the data. After setup. */
bool layer_ignores_label(const struct layer *layer, float *label, bool *divides);

/* Calls the type's setup or setup_in. */
int layer_setup(struct layer *layer, const struct layer_env *env);

/* Declares a parameter of the layer, for its setup. what: its name in messages ("weight"). */
int layer_declare_param(struct layer *layer, const char *what, int naxes, const int64_t *dim,
                        const Caffe__FillerParameter *filler);

/* Appends a line that begins with the layer's name to env->notices, once: the same line again is
 * left out. A text that begins with "warning: " is logged as a warning. */
int layer_notice(const struct layer *layer, const struct layer_env *env, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Makes one line of equal notices of several layers, with their number. */
int layer_notices_gather(char **notices);

/* Creates the layer's operators. Fails if the engine cannot make one (engine_op_create). */
int layer_build(struct layer *layer, struct engine *engine);

/* Whether the layer's operator, on this engine, can do the work of `next` too, a layer that works
 * in place on the layer's top. Before build. */
bool layer_takes(const struct layer *layer, const struct layer *next, const struct engine *engine);

/* Whether the layer's operator, on this engine, can do the work of `before` too, a layer that works
 * in place on a bottom of the layer. Before build. */
bool layer_takes_before(const struct layer *layer, const struct layer *before,
                        const struct engine *engine);

/* Runs the layer's forward pass, by its own function or its operators. */
int layer_forward(struct layer *layer, const struct pass *pass);

/* Runs the layer's backward pass likewise. Only if layer->needs_backward. */
int layer_backward(struct layer *layer, const struct pass *pass);

/* How often, and for how many seconds, forward waited for data (feeder_waits); 0 without a feeder.
 */
void layer_waits(const struct layer *layer, uint64_t *times, double *seconds);

/* Records read so far and the path of their source (feeder_records); 0 and NULL without a feeder.
 * Any thread. */
uint64_t layer_records(const struct layer *layer, const char **path);

/* How many images were turned upright (feeder_turned); 0 without a feeder. Any thread. */
uint64_t layer_turned(const struct layer *layer);

/* Appends a line for each damaged record that was left out (feeder_damage). */
void layer_damage(const struct layer *layer, struct strbuf *out);

/* Appends which record of which file sample number `sample` of the last batch is (feeder_tell). */
void layer_tell(const struct layer *layer, uint64_t sample, struct strbuf *out);

/* How the engine computes the layer, in words, if it had a choice (engine_i.describe). After build.
 */
void layer_describe(const struct layer *layer, const struct engine *engine,
                    char words[ENGINE_OP_WORDS]);

/* Floating-point operations and bytes of one pass, summed over the layer's operators; zero for a
 * layer whose work another layer does, and for a backward pass that is not needed. After build. */
struct op_work layer_work(const struct layer *layer, enum op_pass pass);

/* Fails on an unknown filler name. */
int filler_check(const Caffe__FillerParameter *filler);

/* Fills `elems` floats of host memory by Caffe's rules (docs/caffe.md 8); `shape` gives fan-in and
 * fan-out. Draws depend on (seed, param_index) only. Fails on an unknown filler name. */
int filler_fill(const Caffe__FillerParameter *filler, const struct shape *shape, uint64_t seed,
                int param_index, float *out);

#endif
