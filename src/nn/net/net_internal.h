/* What the files of src/nn/net share. */
#ifndef POSEIDON_NET_NET_INTERNAL_H
#define POSEIDON_NET_NET_INTERNAL_H

#include "net/net.h"
#include "util/owner.h"

#include <stdatomic.h>

/* Floats per cache line: groups begin at multiples of it. */
#define NET_GROUP_ALIGN 16

/* Where a bottom comes from. */
struct net_wire {
    int layer, top;
};

/* One term of the loss: weight times the sum of the blob's elements. */
struct net_loss {
    int layer, top;
    struct blob *blob; /* that top */
    float weight;
    double share; /* multiplies both its value and its gradient: net_share_losses, net_share_sums,
                     else 1 */
    bool sums;    /* over N times the samples it would be N times as large */
    const struct blob *labels; /* it is divided by how many of these are not `ignored`; or NULL */
    float ignored;
    double mine; /* with labels: how many those of the last pass were */
};

struct net_internals {
    struct owner owner;      /* of all memory that the net has, but its layers' own */
    struct net_wire **wires; /* per layer, per bottom: its producer */
    int nlosses;
    struct net_loss *losses; /* by layer, ascending */
    /* Parameters shared under another shape (share_mode PERMISSIVE): the layer then has its own
     * struct param over the owner's memory. */
    int nviews;
    struct param *views;
    int *view_of;                            /* per view: the parameter it shows */
    int *layer_of_param;                     /* per parameter: its owner */
    int (*param_of_layer)[LAYER_MAX_PARAMS]; /* per layer: index in net->params, or -1 where the
                                                training net has it */
    bool *written;         /* per parameter: its gradient of this pass has a value already */
    int *last_contributor; /* per group: the layer whose backward completes it, or whose turn it is
                              where the group decays; -1: neither */
    float *scratch;        /* host memory for losses, their seeds and their labels */
    float *given_values,
        *given_grads;  /* arenas of the caller's, borrowed; NULL: net_build allocates them */
    bool leave_values; /* given_values are filled by somebody else */
    struct net_memory_plan plan; /* of the blobs */
    size_t bytes;                /* of the engine's memory */
    size_t limit;                /* of bytes; 0: none */
    _Atomic int64_t at, ran;     /* net_note_position; how often it was called */
    struct net_graphs *graphs;   /* recorded segments; NULL where the engine records nothing */
};

/* Puts "FILE:LINE: layer 'NAME' (TYPE)" in front of the message; returns -1. */
int net_layer_error(const struct net *net, int layer);

/* The classes of the data against the scores that there are (classes.c). */
int net_check_classes(struct net *net, const struct layer_env *env);
/* Layers, blobs and wires, each layer's shapes (connect.c). */
int net_wire_layers(struct net *net, const struct layer_env *env);
/* Parameters, sharing (params.c) and, once the needs are known, groups (groups.c). */
int net_make_params(struct net *net, const struct layer_env *env);
int net_make_groups(struct net *net);
/* The weighted sum of the pass's losses, and one of them added to a sum (passes.c). */
int net_add_losses(struct net *net, double *sum);
int net_add_loss(struct net *net, const struct net_loss *loss, double *sum);
/* Loss weights, who needs a gradient, and whether in-place layers spoil it (needs.c). */
int net_find_needs(struct net *net);
/* How losses and accuracies depend on the batch (counted.c). */
int net_find_sums(struct net *net);
/* Whether that top, -1: any, of the layer is a loss. */
bool net_has_loss(const struct net *net, int layer, int top);
/* Which layers' work is done by the op of another, before ops are made (fuse.c). */
void net_fuse(struct net *net);
/* Engine memory that the net frees in the end (build.c). */
int net_allocate(struct net *net, size_t bytes, const char *what, float **out);
/* The memory of blobs, once all ops exist (net_memory.c). */
int net_place_blobs(struct net *net);
/* Where the passes are from now on, for any thread: 2 layer + 1 in backward; -1: between two. */
void net_note_position(struct net *net, int64_t at);

enum net_pass { NET_FORWARD, NET_BACKWARD };

/* Layers `from` to `to` of a pass, one after the other; of layers without backward, nothing is
 * done there (passes.c). */
int net_run_layers(struct net *net, enum net_pass direction, int from, int to,
                   const struct pass *pass, bool first);
/* The same, recorded once and launched from then on (net_graphs.c); only where that is usable, and
 * only layers between which the host does nothing. net_graphs_prepare: before a pass of such. */
int net_graphs_open(struct net *net);
void net_graphs_close(struct net *net);
bool net_graphs_usable(const struct net *net);
int net_graphs_prepare(struct net *net, const struct pass *pass);
int net_graphs_run(struct net *net, enum net_pass direction, int from, int to,
                   const struct pass *pass, bool first);
/* A gradient is overwritten by the first layer that computes it in an iteration, added to by
 * others: says so to the layer's parameters (passes.c). */
void net_set_accumulate(struct net *net, int layer, bool first);

#endif
