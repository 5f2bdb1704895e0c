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
    /* Whether the group's hooks must be called between layers. If the engine runs many layers as
     * one (CUDA graphs), the hooks of other groups are called at the begin (before_forward) or end
     * (after_backward) of the pass. NULL: true for every group. */
    bool (*placed)(void *context, int group);
};

struct net_output {
    const struct blob *blob;
    float loss_weight; /* 0: not part of the loss */
    double share;      /* factor of its values: net_share_losses, _sums and _means set it, else 1 */
    bool sums; /* no mean over the batch: it grows with the batch, or has values per sample */
    const struct blob *labels; /* by whose number the output is divided, or each class's by the
                                  class's labels: in training of an Accuracy that ignores one, in
                                  a test net of such losses and scores of classes, too; or NULL */
    float ignored;             /* the label that does not count; NAN: all do */
};

/* A range of the arena of blobs, and the steps in which a blob uses it. Forward of layer l is step
 * l, its backward step 2 nlayers - 1 - l; a test net has forward's steps alone. */
struct net_piece {
    const struct blob *blob; /* also the storage of blobs that share its tensor. Borrowed */
    bool grad;               /* holds the gradient, not the values */
    size_t bytes, offset;
    int begin, end; /* first and last step */
};

struct net_memory_plan {
    int npieces, nsteps;
    struct net_piece *pieces;
    size_t bytes; /* size of the arena */
    size_t apart; /* sum of the pieces' sizes: the arena's size without sharing */
    size_t load;  /* most bytes in use in one step: a lower bound of the arena's size */
    int peak;     /* the step with that load */
};

struct net {
    const struct net_def *def; /* borrowed */
    bool train;
    int nlayers;
    struct layer *layers;
    int nblobs;
    struct blob **blobs; /* owned */
    int nparams;
    struct param *params; /* owned. A test net has only those that the training net lacks */
    const struct net *owner_of_params; /* the training net that lends parameters, or NULL */
    int ngroups;
    struct group *groups; /* of the parameters owned; forward order of their owners */
    int *group_of_layer;  /* per layer: the first group it reads, or -1; net_groups_of gives all */
    size_t elems;         /* floats of each arena, padding between groups included */
    size_t nlearnable;    /* parameters without padding */
    /* The arenas in host memory (values, grads) and in the engine's memory; the same pointers if
     * the engine computes in host memory. NULL before net_build and without parameters; gradients
     * are NULL in a test net. */
    float *values, *grads;
    float *engine_values, *engine_grads;
    int noutputs;
    struct net_output *outputs; /* unconsumed tops by name, alphabetically */
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

/* After a net_create that failed: puts before its message what layers had assumed of their shapes
 * (`notices`: text of env->notices), since a wrong assumption may be the cause. Returns -1. */
int net_explain(const char *notices);

/* Before net_build: places the arenas in the caller's memory, net->elems floats each, aligned to a
 * cache line, which must outlive the net; for engines that compute in host memory. Several nets
 * that train together may share `values`; `grads` is this net's alone. Parameters that a pass
 * itself changes (BatchNorm's running sums) then get memory outside `values`. fill: this net writes
 * the initial values. */
void net_use_arenas(struct net *net, float *values, float *grads, bool fill);

/* Before net_build: gives the blob memory of its own, so that values and gradient can be read after
 * any pass. NULL: every blob. Without it only outputs, loss tops and tops of data layers are sure
 * to hold their values after a pass. */
void net_keep(struct net *net, const struct blob *blob);

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

/* Samples of one pass: the first axis of the first data layer's first top; 0 without a data layer.
 * After net_create. */
int net_batch(const struct net *net);

/* One forward pass over a batch. Calls before_forward for every layer and every group it reads.
 * *loss: the sum over tops of loss_weight times the sum of the top's elements; NULL if unwanted. */
int net_forward(struct net *net, const struct pass *pass, const struct net_hooks *hooks,
                double *loss);

/* How many tops have a loss_weight. */
int net_losses(const struct net *net);

/* How many losses a pass divides by how many of their labels count (ignore_label with VALID): the
 * data decide it. A loss that other layers compute with is none of them. */
int net_counted_losses(const struct net *net);

/* Between net_forward and net_backward: how many labels of its batch count in each of these. */
int net_count_labels(struct net *net, double *counts);

/* Behind it, where gradients and losses become the means over nranks ranks: makes them such that
 * those means are what one rank with all the batches has. counts: summed over the ranks. loss: as
 * in net_forward. */
int net_share_losses(struct net *net, int nranks, const double *counts, double *loss);

/* Losses that are sums over the batch, or have a place for each sample, where the net is given an
 * equal part of one batch and the mean over the parts is taken: from now on they count `share`
 * times, the number of parts. */
void net_share_sums(struct net *net, double share);

/* Sets the factor of losses and scores that are means over the batch: for a net whose part of the
 * batch is larger or smaller than the mean part. */
void net_share_means(struct net *net, double share);

/* Appends the names of the layers with losses that are sums (net_share_sums), comma-separated. */
void net_list_sums(const struct net *net, struct strbuf *out);

/* After net_forward: by how many labels each number of an output that has labels was divided. A
 * training net must have kept the labels' blob (net_keep). */
int net_count_scored(struct net *net, const struct net_output *output, double *out);

/* One of net_losses after a test net's net_forward: its weighted value, and, if it is divided by
 * the labels that count, their number; else *count stays. count: may be NULL. */
int net_read_loss(struct net *net, int number, double *value, double *count);

/* Backward of the last forward pass. first: gradients are overwritten (first micro-batch of an
 * iteration), else added to. Calls after_backward for a group when the last layer that reads its
 * parameters has run; the order of groups is the same on every rank. */
int net_backward(struct net *net, const struct pass *pass, bool first,
                 const struct net_hooks *hooks);

/* Which parts of the passes are recorded and launched as one (CUDA graphs). */
struct net_recorded {
    bool possible;        /* the engine can record */
    int segments[2];      /* recorded segments of the forward and of the backward pass */
    const char *obstacle; /* why recording was given up, or "" */
};
struct net_recorded net_recorded(const struct net *net);

/* Runs one layer's forward by itself, without hooks, for timing. */
int net_layer_forward(struct net *net, int layer, const struct pass *pass);

/* Runs one layer's backward by itself, without hooks, and overwrites its gradients. Does nothing
 * for a layer without backward. */
int net_layer_backward(struct net *net, int layer, const struct pass *pass);

/* After a forward pass: returns the first layer that makes NaN or infinity, and appends layer, blob
 * and place to `out`; NULL: none is found. Most blobs share memory, so all layers but those of data
 * compute once more. */
const struct layer *net_find_nonfinite(struct net *net, const struct pass *pass,
                                       struct strbuf *out);

/* After a forward pass: fails where an output, or a blob that was kept, is not finite, and says
 * where that arose. */
int net_check_blob(struct net *net, const struct blob *blob, const struct pass *pass);

/* Copies the values of an output, or of a blob that was kept (net_keep), to `out`, which holds
 * shape_elems(&blob->value.shape) floats in plain order. */
int net_read_blob(const struct net *net, const struct blob *blob, float *out);

/* How the first data layer with an existing source prepares images; source is NULL if there is no
 * such layer. */
struct layer_images net_images(const struct net *net);

/* Fails if the class names of that data layer and `names` (of the file `path`, one a line) differ
 * at any position. */
int net_compare_classes(const struct net *net, const char *path, const char *names);

/* The layer of that name, or NULL. The last layer of several wins, as in Caffe. */
struct layer *net_find_layer(const struct net *net, const char *name);

/* The blob of that name, or NULL. */
struct blob *net_find_blob(const struct net *net, const char *name);

/* The index of a blob in net->blobs. */
int net_blob_number(const struct net *net, const struct blob *blob);

/* The layer that compares the labels of a data layer's top with scores of classes, directly or
 * through Split layers; of several, the one with the fewest classes; NULL if there is none.
 * *classes: its number of scores. */
const struct layer *net_label_reader(const struct net *net, const struct layer *data, int top,
                                     size_t *classes);

/* Whether a layer returned by net_label_reader has an ignore_label outside its range of classes. */
bool net_ignores_a_label(const struct layer *reader);

/* Whether the shape of an input was assumed; then printed figures of this net must say so. */
bool net_is_assumed(const struct net *net);

/* The two sufficient factors of a factorable group's last pass, in engine memory: *bottom K x N and
 * *top_grad K x M, row-major, of K samples, N inputs and M outputs. Borrowed until the next pass.
 */
void net_factors(const struct net *net, int group, const float **bottom, const float **top_grad);

/* Marks the group's parameters as changed, so that operators renew their packed copies. */
void net_touch(struct net *net, int group);

/* A parameter's values in host memory: param->value, or its place in net->values if the engine has
 * memory of its own. The parameter must be this net's. */
float *net_host_value(const struct net *net, const struct param *param);

/* The index in net->params of a layer's parameter; -1 if the training net owns the parameter. */
int net_param_number(const struct net *net, int layer, int param);

/* The first element of a parameter (an index of net->params) in the arenas. */
size_t net_param_begin(const struct net *net, int param);

/* Copies the group's values from host to engine memory, before all operators that run later, and
 * marks them as changed. No copy if the engine computes in host memory. */
int net_push_values(struct net *net, int group);

/* Copies all values from engine to host memory and waits for the copy. No copy if the engine
 * computes in host memory. */
int net_pull_values(struct net *net);

/* Where the passes are: read by the watchdog. Any thread. */
struct net_position {
    int layer; /* the layer that runs; -1: between two passes */
    bool backward;
    uint64_t done; /* grows with every layer that ran and every record that was read */
};
struct net_position net_position(const struct net *net);

/* Makes all data layers continue at sample `first_sample` of the global order. */
int net_seek(struct net *net, uint64_t first_sample);

/* How often, and for how many seconds in all, forward passes waited for data. */
void net_input_waits(const struct net *net, uint64_t *times, double *seconds);

/* How many images were turned upright, each as often as it was read. */
uint64_t net_input_turned(const struct net *net);

/* Appends a line for each damaged record of the input that was left out. */
void net_input_damage(const struct net *net, struct strbuf *out);

/* Bytes of blobs, gradients and parameters that net_build allocated. */
size_t net_memory(const struct net *net);

/* How net_build laid out the blobs; borrowed. */
const struct net_memory_plan *net_memory_plan(const struct net *net);

/* Frees the net; NULL is allowed. */
void net_destroy(struct net *net);

#endif
