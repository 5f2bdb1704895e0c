/* The net of one phase: layers, blobs, parameters, and the two passes.
 *
 * net_create works on shapes alone; net_build adds ops and memory. Parameters lie in one plain
 * array, gradients in another, layer after layer: a *group* is the parameters that one layer owns
 * (weight and bias side by side), the unit of communication. A test net shares the training net's
 * parameters. */
#ifndef POSEIDON_NET_NET_H
#define POSEIDON_NET_NET_H

#include "device/group.h"
#include "layers/layer.h"

/* Functions by which a pass tells its caller when to wait for parameters and when to send
 * gradients. Each may be NULL. */
struct net_hooks {
    void *context; /* first argument of the functions; borrowed */
    /* A layer is about to read the group's parameters. */
    int (*before_forward)(void *context, int group);
    /* The group's gradient of this pass is complete. */
    int (*after_backward)(void *context, int group);
    /* True if the group's hooks must be called between layers. If the engine runs many layers as
     * one (CUDA graphs), the hooks of other groups are called at the beginning (before_forward) or
     * end (after_backward) of the pass. NULL: true for every group. */
    bool (*placed)(void *context, int group);
};

struct net_output {
    const struct blob *blob;
    float loss_weight; /* 0: not part of the loss */
    double share;      /* factor of the values, set by net_share_losses, _sums and _means; else 1 */
    bool sums; /* not a mean over the batch: grows with the batch, or has values per sample */
    const struct blob
        *labels; /* labels whose count divides the output (per class, for accuracies of classes), if
                    the count depends on the data; or NULL. In a training net only for Accuracy */
    float ignored; /* label that is not counted; NAN: all labels count */
};

/* A range of the arena of blobs, and the steps in which a blob uses it. Forward of layer l is step
 * l, its backward step 2 nlayers - 1 - l; a test net has forward's steps alone. */
struct net_piece {
    const struct blob *blob; /* borrowed; other blobs may share its storage */
    bool grad;               /* true: the blob's gradient; false: its values */
    size_t bytes, offset;
    int begin, end; /* first and last step */
};

struct net_memory_plan {
    int npieces, nsteps;
    struct net_piece *pieces;
    size_t bytes; /* size of the arena */
    size_t apart; /* sum of the pieces' sizes: the arena's size without sharing */
    size_t load;  /* most bytes in use in one step: a lower bound of the arena's size */
    int peak;     /* step with the most bytes in use (`load`) */
};

struct net {
    const struct net_def *def; /* borrowed */
    bool train;
    int nlayers;
    struct layer *layers;
    int nblobs;
    struct blob **blobs; /* owned */
    int nparams;
    struct param *params; /* owned. A test net has only parameters that the training net lacks */
    const struct net *owner_of_params; /* the training net that lends parameters, or NULL */
    int ngroups;
    struct group *groups; /* groups of the parameters owned, in forward order of their layers */
    int *group_of_layer;  /* per layer: first group read, or -1; see net_groups_of */
    size_t elems;         /* floats of each arena, padding between groups included */
    size_t nlearnable;    /* number of floats in all parameters, without padding */
    /* The arenas in host memory (values, grads) and in the engine's memory; the same pointers if
     * the engine computes in host memory. NULL before net_build and without parameters; gradients
     * are NULL in a test net. */
    float *values, *grads;
    float *engine_values, *engine_grads;
    int noutputs;
    struct net_output *outputs; /* tops without a reader, alphabetically */
    struct engine *engine;      /* borrowed; NULL before net_build */
    struct trace *trace; /* borrowed; records the passes layer by layer, so that the engine runs
                            each layer by itself; NULL: no recording */
    double flops;        /* floating-point operations of one forward pass */
    struct net_internals *internals; /* used by src/nn/net alone; owned */
};

/* Makes shapes, parameters and groups from `def`, which must outlive the net. Only a net of the
 * TRAIN phase has gradients. `share`: the training net whose parameters of the same layer names
 * (and shapes) this net uses, or NULL; it must outlive this net. Layers whose parameters the
 * training net lacks get their own, with a notice. Fewer scores than the data have named classes
 * are an error, more are a notice. Errors begin "FILE:LINE: layer 'NAME' (TYPE): ". *out is the
 * caller's, for net_destroy. Not collective. */
int net_create(const struct net_def *def, bool train, const struct layer_env *env,
               const struct net *share, struct net **out);

/* After net_create failed: puts the assumptions about shapes in `notices` (text of env->notices)
 * before the error message, since a wrong assumption may be the cause. Returns -1. */
int net_explain(const char *notices);

/* Before net_build: places the arenas in the caller's memory, net->elems floats each, aligned to a
 * cache line, which must outlive the net; for engines that compute in host memory. Several nets
 * that train together may share `values`; `grads` is this net's alone. Parameters that a pass
 * itself changes (BatchNorm's running sums) then get memory outside `values`. */
void net_use_arenas(struct net *net, float *values, float *grads);

/* Before net_build: gives the blob memory of its own, so that values and gradient can be read after
 * any pass. NULL: every blob. Without net_keep only outputs, loss tops and tops of data layers are
 * sure to hold their values after a pass. */
void net_keep(struct net *net, const struct blob *blob);

/* Before net_build: leaves parameters without initial values, but for statistics, because a
 * snapshot or another net that shares `values` gives them. */
void net_leave_values(struct net *net);

/* Before net_build: makes net_build fail, before it allocates blobs, if the net's memory would
 * exceed `bytes`. */
void net_limit_memory(struct net *net, size_t bytes);

/* Makes operators and memory, and fills the parameters that are not shared with their initial
 * values; `seed` is that of the fillers. */
int net_build(struct net *net, struct engine *engine, uint64_t seed);

/* In place of net_build, for a program that runs no pass: allocates the parameters in the engine's
 * memory, for the caller to fill. */
int net_hold(struct net *net, struct engine *engine);

/* Writes the numbers of the groups that a layer reads to `out`, ascending, and returns their count:
 * more than one if the layer shares only some of its parameters by name. A test net's numbers do
 * not include groups of the training net. */
int net_groups_of(const struct net *net, int layer, int out[LAYER_MAX_PARAMS]);

/* Returns the samples of one pass: the first axis of the first data layer's first top; 0 without a
 * data layer. After net_create. */
int net_batch(const struct net *net);

/* Runs the forward pass. Calls before_forward for every layer and every group it reads. *loss: the
 * sum over tops of loss_weight times the sum of the top's elements; NULL if unwanted. */
int net_forward(struct net *net, const struct pass *pass, const struct net_hooks *hooks,
                double *loss);

/* Returns how many tops have a loss_weight. */
int net_losses(const struct net *net);

/* Returns how many losses divide by the number of labels that are not ignored (ignore_label with
 * VALID), which depends on the data. Losses that other layers compute with are left out. */
int net_counted_losses(const struct net *net);

/* Between net_forward and net_backward: for each of net_counted_losses, the labels of the batch
 * that are not ignored. */
int net_count_labels(struct net *net, double *counts);

/* After net_count_labels: scales the counted losses so that the mean of losses and gradients over
 * nranks ranks equals the result of one rank with all batches. counts: sums over the ranks. *loss:
 * as in net_forward. */
int net_share_losses(struct net *net, int nranks, const double *counts, double *loss);

/* Scales losses that sum over the batch, or have a value per sample, by `share`, the number of
 * equal parts of the batch, so that the mean over the parts is right. Holds from now on. */
void net_share_sums(struct net *net, double share);

/* Scales losses and scores that are means over the batch, by `share`, this rank's part of the batch
 * / the mean part, for ranks with unequal parts. Holds from now on. */
void net_share_means(struct net *net, double share);

/* Appends the names of the layers with losses that are sums (net_share_sums), comma-separated. */
void net_list_sums(const struct net *net, struct strbuf *out);

/* After net_forward: writes the number of labels by which each element of the output was divided.
 * The output must have labels; a training net must have kept their blob (net_keep). */
int net_count_scored(struct net *net, const struct net_output *output, double *out);

/* After a test net's net_forward: reads the weighted value of loss number `number` (below
 * net_losses). *count: the labels by which the loss was divided, else unchanged; NULL if
 * unwanted. */
int net_read_loss(struct net *net, int number, double *value, double *count);

/* Runs the backward pass of the last forward pass. first: overwrites gradients (first micro-batch
 * of an iteration), else adds to them. Calls after_backward for a group when the last layer that
 * reads its parameters has run; the order of groups is the same on every rank. */
int net_backward(struct net *net, const struct pass *pass, bool first,
                 const struct net_hooks *hooks);

/* Segments of the passes that are recorded and launched as one (CUDA graphs). */
struct net_recorded {
    bool possible;        /* the engine can record */
    int segments[2];      /* recorded segments in the forward and in the backward pass */
    const char *obstacle; /* why recording was given up, or "" */
};
struct net_recorded net_recorded(const struct net *net);

/* Runs one layer's forward by itself, without hooks, for timing. */
int net_layer_forward(struct net *net, int layer, const struct pass *pass);

/* Runs one layer's backward by itself, without hooks, and overwrites its gradients. Does nothing
 * for a layer without backward. */
int net_layer_backward(struct net *net, int layer, const struct pass *pass);

/* After a forward pass: returns the first layer that makes NaN or infinity, and appends layer, blob
 * and place to `out`; NULL: none found. Recomputes all layers but data layers, as most blobs share
 * memory. */
const struct layer *net_find_nonfinite(struct net *net, const struct pass *pass,
                                       struct strbuf *out);

/* After a forward pass: fails if the blob, an output or a kept one, is not finite, and names the
 * layer where the first such value arose. */
int net_check_blob(struct net *net, const struct blob *blob, const struct pass *pass);

/* Copies the values of an output, or of a blob that was kept (net_keep), to `out`, which holds
 * shape_elems(&blob->value.shape) floats in plain order. */
int net_read_blob(const struct net *net, const struct blob *blob, float *out);

/* Returns how the first data layer with an existing source prepares images; source NULL: none. */
struct layer_images net_images(const struct net *net);

/* Fails if class names of the first data layer with an existing source and `names` (of the file
 * `path`, one a line) differ at any position. */
int net_compare_classes(const struct net *net, const char *path, const char *names);

/* Returns the layer of that name, or NULL. The last layer of several wins, as in Caffe. */
struct layer *net_find_layer(const struct net *net, const char *name);

/* Returns the last blob of that name, or NULL. */
struct blob *net_find_blob(const struct net *net, const char *name);

/* Returns the index of a blob in net->blobs. */
int net_blob_number(const struct net *net, const struct blob *blob);

/* Returns the layer that compares the labels of a data layer's top with scores of classes, directly
 * or through Split layers; of several, the one with the fewest classes; NULL: none. *classes: its
 * number of scores. */
const struct layer *net_label_reader(const struct net *net, const struct layer *data, int top,
                                     size_t *classes);

/* True if a layer returned by net_label_reader has an ignore_label. */
bool net_ignores_a_label(const struct layer *reader);

/* True if the shape of an input is a guess, which printed figures of this net must then mention. */
bool net_is_assumed(const struct net *net);

/* Sets *bottom (K x N) and *top_grad (K x M) to the two sufficient factors of a factorable group's
 * last pass: row-major in engine memory, of K samples, N inputs and M outputs. Borrowed until the
 * next pass. */
void net_factors(const struct net *net, int group, const float **bottom, const float **top_grad);

/* Marks the group's parameters as changed, so that operators renew their packed copies. */
void net_touch(struct net *net, int group);

/* Returns a parameter's values in host memory: param->value, or its place in net->values if the
 * engine has memory of its own. The parameter must be this net's. */
float *net_host_value(const struct net *net, const struct param *param);

/* Returns the index in net->params of a layer's parameter; -1: the training net's parameter. */
int net_param_number(const struct net *net, int layer, int param);

/* Returns the index of a parameter's first element in the arenas. param: index in net->params. */
size_t net_param_begin(const struct net *net, int param);

/* Copies the group's values from host to engine memory, before all operators that run later, and
 * marks them as changed. No copy if the engine computes in host memory. */
int net_push_values(struct net *net, int group);

/* Copies all values from engine to host memory and waits for the copy. No copy if the engine
 * computes in host memory. */
int net_pull_values(struct net *net);

/* The place of the pass under way, for the watchdog. Any thread. */
struct net_position {
    int layer; /* layer that runs; -1: between two passes */
    bool backward;
    uint64_t done; /* count of layers that ran and records that were read */
};
struct net_position net_position(const struct net *net);

/* Makes all data layers continue at sample `first_sample` of the global order. */
int net_seek(struct net *net, uint64_t first_sample);

/* Returns how often, and for how many seconds in all, forward passes waited for data. */
void net_input_waits(const struct net *net, uint64_t *times, double *seconds);

/* Returns the bytes of blobs, gradients and parameters that net_build allocated. */
size_t net_memory(const struct net *net);

/* Returns the layout of the blobs' arena that net_build chose; borrowed. */
const struct net_memory_plan *net_memory_plan(const struct net *net);

/* Frees the net; NULL is allowed. */
void net_destroy(struct net *net);

#endif
