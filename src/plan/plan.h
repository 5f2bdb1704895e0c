/* The plan: which scheme moves which group of parameters, how groups are cut into chunks, which
 * server holds which chunk, and how many bytes that puts on the wire. Pure arithmetic: no MPI, the
 * same on every rank, and usable without a cluster. */
#ifndef POSEIDON_SYNC_PLAN_H
#define POSEIDON_SYNC_PLAN_H

#include "net/net.h"
#include "engine/codec.h"

enum scheme {
    SCHEME_NONE,      /* no traffic: the group does not train, or every worker updates its own
                         (COMM_NONE) */
    SCHEME_PS,        /* sharded parameter server */
    SCHEME_SFB,       /* sufficient factor broadcasting */
    SCHEME_ALLREDUCE, /* reduce-scatter and allgather among the workers */
    SCHEME_ADAM,      /* factors to the layer's owner, the whole matrix back */
    SCHEME_ONEBIT,    /* one bit a gradient, with error feedback */
    SCHEMES
};

enum comm_mode {
    COMM_PS,        /* every group by PS */
    COMM_SFB,       /* every factorable group by SFB, the rest by PS */
    COMM_PAPER,     /* BestScheme of the paper (Zhang et al., USENIX ATC'17, Algorithm 1) */
    COMM_ALLREDUCE, /* every group by allreduce */
    COMM_ADAM,      /* every factorable group by Adam's way, the rest by PS */
    COMM_ONEBIT,    /* every factorable group in one bit a gradient, the rest by PS */
    COMM_AUTO,      /* what the caller chose: plan_options.scheme */
    COMM_NONE,      /* nothing is exchanged: every worker trains alone. The ceiling of speed */
    COMM_MODES
};

enum {
    PLAN_LEAST_PART = 4096
}; /* elements: a group is not spread over its homes in smaller parts */

enum wire {
    WIRE_FP32,
    WIRE_BF16, /* gradients of PS and allreduce, and allreduce's sums, as bfloat16 with error
                  feedback */
};

struct plan_options {
    enum comm_mode comm;
    enum wire wire;
    const enum scheme *scheme; /* COMM_AUTO: one per group, among those the group can travel by;
                                  borrowed for plan_create */
    int nranks;                /* all of them */
    int servers; /* > 0: that many dedicated server ranks, the last ones; 0: every worker is also
                    a server */
    const int *nodes; /* per worker: its node, numbered as they first come; a node's workers add up
                         among themselves and the first of them speaks for all (node.h). NULL: every
                         worker speaks for itself. Borrowed for plan_create */
    size_t chunk_bytes; /* most a KV chunk holds; at least 4 */
    size_t merge_bytes; /* neighbouring groups of one scheme travel together until they hold that
                           much; 0: each alone */
    int iter_size;      /* micro-batches per iteration: SFB sends the factors of all of them */
    int dilate; /* > 1: once schemes are chosen, groups shrink to 1/dilate of their elements and
                   factors to 1/dilate of their width: 1/dilate of the bytes. For the replay
                   engine alone */
};

/* A bucket: one group of the net, or several neighbours that PS or allreduce moves as one while
 * each alone would cost more in messages than in bytes. It starts when the last of them has its
 * gradient. Its members lie side by side in the arenas. To the syncers a bucket is a group like any
 * other, and they call it that. */

/* A KV pair: a contiguous piece of one group, the unit that a server sums, updates and sends back.
 */
struct chunk {
    int group;
    size_t begin; /* element offset in the arenas */
    size_t elems;
    size_t rows; /* the codec's rows; 1 where it has none */
    int home; /* the speaker where gradients are added: a server, with allreduce and 1-bit a worker
               */
};

/* Who exchanges messages are the *speakers*: one worker per node, or all where there are no nodes,
 * then the dedicated servers. They are numbered from 0 in the order of their world ranks. */
struct plan {
    struct plan_options options;
    int nworkers, nservers; /* among the speakers */
    bool dedicated;         /* servers are ranks of their own */
    int ncomputing;         /* workers in all, whose gradients the mean is of */
    int *speaker;           /* per world rank: who speaks for it */
    int *world_rank;        /* per speaker */
    int *locals;     /* per speaker that is a worker: the workers it speaks for, itself included */
    int most_locals; /* the largest of them */
    int ngroups;     /* buckets */
    struct param_group
        *groups;         /* what each one moves; `elems` counts the padding between members */
    int *first_member;   /* ngroups + 1: bucket g is groups [first_member[g], first_member[g+1]) of
                            the net */
    int *bucket;         /* per group of the net */
    char **names;        /* per bucket: owned where it has several members, else NULL */
    enum scheme *scheme; /* per bucket */
    int nchunks;
    struct chunk *chunks; /* group by group */
    int *first_chunk; /* ngroups + 1: chunks of group g are [first_chunk[g], first_chunk[g+1]) */
};

/* What crosses the network for one rank in one iteration. Own chunks of a worker that is also a
 * server never cross it. Headers: there are none, the signature rides in the message tags. */
struct traffic {
    uint64_t sent, received; /* bytes */
};

/* ngroups, groups: the net's; names are borrowed from there. Chunks of all groups, largest first,
 * are dealt to the server (or worker) with the fewest bytes so far, so that none is hot; a group
 * that goes Adam's way has one owner. Not collective. */
int plan_create(const struct plan_options *options, int ngroups, const struct param_group *groups,
                struct plan **out);
void plan_destroy(struct plan *plan);

/* BestScheme: true where SFB is to move an m x n fully connected layer with k rows per worker:
 * 2k(P1-1)(m+n) <= 2mn(P1+P2-2)/P2, ties go to SFB. Exact integer arithmetic. */
bool plan_prefers_sfb(int64_t m, int64_t n, int64_t k, int64_t nworkers, int64_t nservers);

static inline int plan_home(const struct plan *plan, int chunk)
{
    return plan->chunks[chunk].home;
}

/* How the chunk's gradient is written on the wire (NULL: as floats), and in how many bytes. */
const struct codec *plan_codec(const struct plan *plan, int chunk);
size_t plan_gradient_bytes(const struct plan *plan, int chunk);

/* Whether ranks must add up the group's gradients. */
static inline bool plan_travels(const struct plan *plan, int group)
{
    return plan->scheme[group] != SCHEME_NONE;
}

/* Whether that world rank computes; and whether it takes part in the traffic. */
bool plan_is_worker(const struct plan *plan, int world_rank);
static inline bool plan_speaks(const struct plan *plan, int world_rank)
{
    return plan->world_rank[plan->speaker[world_rank]] == world_rank;
}

/* Whether one worker does all that is left to do: nothing crosses a network. */
static inline bool plan_is_alone(const struct plan *plan)
{
    return plan->nworkers == 1 && !plan->dedicated;
}

/* Rows of factors that a speaker sends of a factorable group. */
static inline int64_t plan_rows(const struct plan *plan, int group, int speaker)
{
    return plan->groups[group].k * plan->options.iter_size * plan->locals[speaker];
}

/* Bytes of group g in one iteration at that world rank. */
struct traffic plan_traffic(const struct plan *plan, int group, int world_rank);

/* "PS", "SFB", "allreduce", "Adam", "1-bit", "-". */
const char *scheme_name(enum scheme scheme);

/* "ps", "sfb", "paper", ...; "fp32", "bf16". Fail with the list. */
int comm_mode_parse(const char *text, enum comm_mode *out);
int wire_parse(const char *text, enum wire *out);
const char *comm_mode_name(enum comm_mode mode);
const char *wire_name(enum wire wire);

/* A number that differs when two ranks' plans (or the extra words given) differ. */
uint64_t plan_digest(const struct plan *plan, uint64_t seed);

#endif
