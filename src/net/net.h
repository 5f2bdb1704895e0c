/* The net of one phase: layers, blobs, parameters, and the two passes.
 *
 * net_create works on shapes alone; net_build adds ops and memory. Parameters lie in one plain
 * array, gradients in another, layer after layer: a *group* is the parameters that one layer owns
 * (weight and bias side by side), the unit that a syncer moves. A test net shares the training
 * net's parameters. */
#ifndef POSEIDON_NET_NET_H
#define POSEIDON_NET_NET_H

#include "engine/group.h"
#include "layers/layer.h"

/* How a pass talks to whoever synchronises the parameters. Either may be NULL. */
struct net_hooks {
    void *context;
    int (*before_forward)(void *context,
                          int group); /* the layer is about to read the group's values */
    int (*after_backward)(void *context,
                          int group); /* the group's gradient of this pass is final */
    /* Whether somebody may wait for what the group's hooks do, so that they must be called between
     * layers. Others are called at the pass's begin (before_forward) or end (after_backward) where
     * the engine runs many layers as one. NULL: all have their place. */
    bool (*placed)(void *context, int group);
};

struct net_output {
    const struct blob *blob;
    float loss_weight; /* 0: not part of the loss */
    double share; /* what its values are multiplied by: net_share_losses, net_share_sums, else 1 */
    const struct blob *labels; /* an accuracy, in training: of those labels that are not `ignored`;
                                  NULL: of all, or none */
    int ignored;
};

/* A stretch of the arena of blobs, and when it is in use. Forward of layer l is step l, its
 * backward step 2 nlayers - 1 - l; a test net has forward's steps alone. */
struct net_piece {
    const struct blob
        *blob; /* whose it is; those that are based on its tensor use it too. Borrowed */
    bool grad; /* holds the gradient, not the values */
    size_t bytes, offset;
    int begin, end; /* first and last step */
};

struct net_memory_plan {
    int npieces, nsteps;
    struct net_piece *pieces;
    size_t bytes; /* of the arena */
    size_t apart; /* what the pieces would take without sharing */
    size_t load;  /* the most that is in use at once, at step `peak`: no arena can be smaller */
    int peak;
};

struct net {
    const struct net_def *def; /* borrowed */
    bool train;
    int nlayers;
    struct layer *layers;
    int nblobs;
    struct blob **blobs; /* owned */
    int nparams;
    struct param *params; /* owned. A net that shares has only those the training net lacks */
    const struct net
        *owner_of_params; /* the training net whose parameters this one uses, or NULL */
    int ngroups;
    struct group *groups; /* of the parameters owned; forward order of their owners */
    int *group_of_layer;  /* per layer: the first group it reads, or -1. Layers that share name the
                             owner's group; net_groups_of gives all that a layer reads */
    size_t elems;         /* of each arena, padding between groups included */
    size_t nlearnable;    /* parameters without padding */
    /* The arenas where the host can touch them, and where ops work on them: the same pointers where
     * the engine's memory is the host's. NULL before net_build, where there are no parameters, and
     * the gradients of a net that has none. */
    float *values, *grads;
    float *engine_values, *engine_grads;
    int noutputs;
    struct net_output *outputs; /* unconsumed tops by name, alphabetically */
    struct engine *engine;      /* borrowed; NULL before net_build */
    struct trace *trace; /* borrowed: the passes are noted there, layer by layer, and no layers run
                            as one; NULL: they are not */
    double flops;        /* one forward pass */
    struct net_internals *internals; /* what only src/net needs; owned */
};

/* Shapes, parameters, groups. `def` must outlive the net. `share`: the training net whose
 * parameters of the same layer names (and shapes) this net uses, or NULL; it must outlive this net.
 * Layers with parameters that it lacks get their own, said in a notice. Fewer scores than the data
 * have classes with names are an error, more a notice. Errors begin "FILE:LINE:
 * layer 'NAME' (TYPE): ". Only a net of the TRAIN phase has gradients. Not collective. */
int net_create(const struct net_def *def, bool train, const struct layer_env *env,
               const struct net *share, struct net **out);

/* Behind a net_create that failed: appends to the message what layers had to assume of their
 * shapes, of env->notices; that may be what does not fit, or have nothing to do with it. Returns
 * -1. */
int net_explain(const char *notices);

/* Before net_build, where the arenas are to lie in memory of the caller's (net->elems floats each,
 * a cache line's alignment, of an engine that works on the host's memory; it outlives the net):
 * values may be shared by several nets that train together, grads is this net's alone. What a pass
 * changes by itself, as BatchNorm's running sums, then has a place outside `values`. fill: this net
 * writes the initial values. */
void net_use_arenas(struct net *net, float *values, float *grads, bool fill);

/* Before net_build: what the blob holds, values and gradient, can be read after any pass. NULL: of
 * every blob. Others share memory: after a pass only outputs, loss tops, and tops of data layers
 * are sure to hold their values still. */
void net_keep(struct net *net, const struct blob *blob);

/* Before net_build, which then fails before the blobs are allocated where all of the net's memory
 * would take more than `bytes` bytes. */
void net_limit_memory(struct net *net, size_t bytes);

/* Ops, memory, and (where not shared) the parameters' initial values by their fillers. */
int net_build(struct net *net, struct engine *engine, uint64_t seed);

/* Instead of it, for a program that runs nothing: memory of the engine's for the parameters, which
 * the caller is to fill. */
int net_hold(struct net *net, struct engine *engine);

/* The groups that a layer reads, ascending, at most LAYER_MAX_PARAMS; returns how many. More than
 * one where only some of its parameters are shared by name. Numbers are of this net's groups; in a
 * net that shares, parameters of the training net belong to none of them. */
int net_groups_of(const struct net *net, int layer, int out[LAYER_MAX_PARAMS]);

/* Samples of one pass: the first axis of what the first data layer gives; 0 where no layer is one.
 * After net_create. */
int net_batch(const struct net *net);

/* One pass over a batch. before_forward fires for every layer and every group it reads. loss: sum
 * over tops of weight * elements; NULL if unwanted. */
int net_forward(struct net *net, const struct run *run, const struct net_hooks *hooks,
                double *loss);

/* Whether any top has a loss_weight. */
bool net_has_any_loss(const struct net *net);

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

/* Appends their layers' names, with commas. */
void net_list_sums(const struct net *net, struct strbuf *out);

/* After net_forward: of how many labels that accuracy is; 1 without `labels`, which are to be kept
 * (net_keep). */
int net_count_scored(struct net *net, const struct net_output *output, double *out);

/* Backward of the pass just run. `first`: gradients are overwritten, not added to (first
 * micro-batch of an iteration). after_backward fires for a group when its last contributor has run,
 * of one that decays when its owner's turn is, in an order that is the same on every rank. */
int net_backward(struct net *net, const struct run *run, bool first, const struct net_hooks *hooks);

/* What of the passes is recorded and launched as one. */
struct net_recorded {
    bool possible;        /* the engine can */
    int segments[2];      /* recorded: of the forward, of the backward pass */
    const char *obstacle; /* why nothing is recorded any more, or "" */
};
struct net_recorded net_recorded(const struct net *net);

/* One layer of either pass alone, for timing: what the passes do for it, without hooks. Its
 * gradients are overwritten. Backward of a layer that needs none does nothing. */
int net_layer_forward(struct net *net, int layer, const struct run *run);
int net_layer_backward(struct net *net, int layer, const struct run *run);

/* Values of an output, or of a blob that was kept, as plain floats; `out` holds
 * shape_elems(&blob->value.shape) of them. */
int net_read_blob(const struct net *net, const struct blob *blob, float *out);

/* What the first data layer whose source is there does to images; source NULL: there is none. */
struct layer_images net_images(const struct net *net);

/* Fails where the classes of that layer and of a file, as a text, have other names by position. */
int net_compare_classes(const struct net *net, const char *path, const char *names);

/* By name; NULL if absent. The last layer of that name wins, as in Caffe. */
struct layer *net_find_layer(const struct net *net, const char *name);
struct blob *net_find_blob(const struct net *net, const char *name);

/* Of one of the net's blobs, its place among them. */
int net_blob_number(const struct net *net, const struct blob *blob);

/* Who compares the labels in that top of a data layer, itself or behind Splits, with scores of
 * classes; *classes: how many. The one with the fewest; NULL: nobody does. */
const struct layer *net_label_reader(const struct net *net, const struct layer *data, int top,
                                     size_t *classes);

/* Whether that reader passes over a label that no score stands for. */
bool net_ignores_a_label(const struct layer *reader);

/* Whether the shape of some input was assumed, so that no figure of this net is to be printed
 * without that word. */
bool net_is_assumed(const struct net *net);

/* The two factors of a factorable group's last pass, in engine memory: k x n and k x m, plain. */
void net_factors(const struct net *net, int group, const float **bottom, const float **top_grad);

/* Marks the group's values as changed, so that ops renew their copies. */
void net_touch(struct net *net, int group);

/* Where the host finds a parameter's values: param->value itself, or its place in net->values. The
 * parameter is this net's. */
float *net_host_value(const struct net *net, const struct param *param);

/* The number of a layer's parameter, which others may share, in net->params; -1: it is the training
 * net's. */
int net_param_number(const struct net *net, int layer, int param);

/* Where a parameter, by its number, begins in the arenas. */
size_t net_param_begin(const struct net *net, int param);

/* The group's values as the host has them become the engine's, before anything that is run
 * afterwards, and count as changed; and all values as the engine has them become the host's,
 * waiting for them. Neither copies where the memory is one. */
int net_push_values(struct net *net, int group);
int net_pull_values(struct net *net);

/* Where the passes are, and all that was got done so far: changes with every layer that runs and
 * every record that is read. Any thread. */
struct net_position {
    int layer; /* -1: between two passes */
    bool backward;
    uint64_t done;
};
struct net_position net_position(const struct net *net);

/* Data layers: jump to that place of the global sample order; how often and long forward waited. */
int net_seek(struct net *net, uint64_t first_sample);
void net_input_waits(const struct net *net, uint64_t *times, double *seconds);

/* Appends a line for each damaged record of the input that was left out. */
void net_input_damage(const struct net *net, struct strbuf *out);

/* Bytes of blobs, gradients, parameters that net_build allocated. */
size_t net_memory(const struct net *net);

/* How net_build laid out the blobs. */
const struct net_memory_plan *net_memory_plan(const struct net *net);

void net_destroy(struct net *net);

#endif
