/* Shared by the files of src/nn/net: the net's internal state and its construction steps. */
#ifndef POSEIDON_NET_NET_INTERNAL_H
#define POSEIDON_NET_NET_INTERNAL_H

#include "net/net.h"
#include "util/owner.h"

#include <stdatomic.h>

/* Floats per cache line: groups begin at multiples of it. */
#define NET_GROUP_ALIGN 16

/* The producer of a bottom: layer and index of its top. */
struct net_wire {
    int layer, top;
};

/* One term of the loss: weight times the sum of the blob's elements. */
struct net_loss {
    int layer, top;
    struct blob *blob; /* the top's blob */
    float weight;
    double share; /* factor of value and gradient (net_share_losses, _sums, _means); else 1 */
    bool sums;    /* the value grows with the batch */
    const struct blob *labels; /* labels whose count (not of `ignored`) divides the loss; or NULL */
    float ignored;
    double mine; /* number of labels that counted in this rank's last pass */
};

struct net_internals {
    struct owner owner;      /* owner of the net's host and device memory */
    struct net_wire **wires; /* per layer, per bottom: its producer */
    int nlosses;
    struct net_loss *losses; /* in ascending order of layers */
    /* Parameters shared under another shape (share_mode PERMISSIVE): the layer has its own struct
     * param, a view of the owner's memory. */
    int nviews;
    struct param *views;
    int *view_of;                            /* per view: index of the parameter in net->params */
    int *layer_of_param;                     /* per parameter: owner layer */
    int (*param_of_layer)[LAYER_MAX_PARAMS]; /* per layer: indices in net->params; -1: the training
                                                net's */
    bool *written;                           /* per parameter: this pass has written its gradient */
    int *
        last_contributor; /* per group: after_backward is called after this layer's backward. The
                             last contributor, or the owner of a group that only decays; -1: none */
    float *scratch;       /* host memory for losses, their seeds and their labels */
    float *given_values, *given_grads; /* arenas lent by the caller; NULL: net_build allocates */
    bool leave_values;                 /* no fillers: another net or a snapshot gives the values */
    struct net_memory_plan plan;       /* layout of the blobs' arena */
    size_t bytes;                      /* engine memory allocated */
    size_t limit;                      /* upper limit of bytes; 0: none */
    _Atomic int64_t at, ran;   /* last position, and number of calls, of net_note_position */
    struct net_graphs *graphs; /* recorded segments; NULL: the engine cannot record */
};

/* Puts "FILE:LINE: layer 'NAME' (TYPE)" in front of the message; returns -1. */
int net_layer_error(const struct net *net, int layer);

/* Compares the data's named classes with the scores (classes.c). */
int net_check_classes(struct net *net, const struct layer_env *env);
/* Makes layers, blobs and wires, and each layer's shapes (connect.c). */
int net_wire_layers(struct net *net, const struct layer_env *env);
/* Make parameters and sharing (params.c); after net_find_needs, groups (groups.c). */
int net_make_params(struct net *net, const struct layer_env *env);
int net_make_groups(struct net *net);
/* Compute the weighted sum of the pass's losses; add one loss to a sum (passes.c). */
int net_add_losses(struct net *net, double *sum);
int net_add_loss(struct net *net, const struct net_loss *loss, double *sum);
/* Reads loss weights; finds layers that run backward and blobs that need a gradient (needs.c). */
int net_find_needs(struct net *net);
/* Finds outputs and losses that sum over the batch or divide by a count of labels (counted.c). */
int net_find_sums(struct net *net);
/* True if the layer's top is a loss. top -1: any of the layer's tops. */
bool net_has_loss(const struct net *net, int layer, int top);
/* Fuses in-place layers into the op of a neighbour layer, before ops are made (fuse.c). */
void net_fuse(struct net *net);
/* Allocates engine memory, which net_destroy frees (build.c). */
int net_allocate(struct net *net, size_t bytes, const char *what, float **out);
/* Lays out and allocates the memory of blobs, after all ops exist (net_memory.c). */
int net_place_blobs(struct net *net);
/* Stores the place of the pass for any thread: 2 layer, + 1 in backward; -1: between passes. */
void net_note_position(struct net *net, int64_t at);

enum net_pass { NET_FORWARD, NET_BACKWARD };

/* Runs layers `from` to `to` of a pass; skips layers without backward in the backward pass
 * (passes.c). */
int net_run_layers(struct net *net, enum net_pass direction, int from, int to,
                   const struct pass *pass, bool first);
/* Runs layers `from` to `to`, recorded once and then launched (net_graphs.c). Only if usable, and
 * for layers between which the host does nothing. net_graphs_prepare: before a pass with such
 * layers. */
int net_graphs_open(struct net *net);
void net_graphs_close(struct net *net);
bool net_graphs_usable(const struct net *net);
int net_graphs_prepare(struct net *net, const struct pass *pass);
int net_graphs_run(struct net *net, enum net_pass direction, int from, int to,
                   const struct pass *pass, bool first);
/* Makes the layer's backward overwrite gradients that no layer has written in this iteration, and
 * add to the rest (passes.c). */
void net_set_accumulate(struct net *net, int layer, bool first);

#endif
