/* The plan: which scheme moves which group of parameters, how groups are merged into buckets and
 * cut into chunks, which rank adds which chunk up, and how many bytes that puts on the wire. Pure
 * arithmetic: no MPI, the same on every rank, and usable without a cluster. */
#ifndef POSEIDON_PLAN_PLAN_H
#define POSEIDON_PLAN_PLAN_H

#include "plan/comm.h"
#include "util/owner.h"

enum {
    PLAN_LEAST_PART = 4096, /* elements: smaller parts a bucket is never spread in */
    /* bytes of a message: MPI's counts are ints, of what is sent and of the bytes that came */
    PLAN_LARGEST_MESSAGE = INT32_MAX / 4 * 4,
    PLAN_FEW_HOMES = 8,   /* up to 8 homes that is the only bound; see plan_sizes.latency */
    PLAN_LOG_LEADERS = 32 /* with fewer leaders no bucket travels along a tree */
};

/* Bytes that a link carries in the latency of one message, if nothing was measured: 26 us at 10
 * Gbit/s. */
#define PLAN_USUAL_LATENCY_BYTES ((size_t)32 << 10)

/* Memory limit of a bucket's received factors, or twice its parameters if that is more. */
#define PLAN_FACTOR_BYTES ((size_t)4 << 20)

/* On up to 1,024 ranks plans of the usual sizes keep at most twice the parameters and this for
 * communication, beside parameters, gradients and history. */
#define PLAN_MEMORY_FREE ((size_t)64 << 20)

/* Sizes of messages, in bytes. */
struct plan_sizes {
    size_t chunk;   /* largest chunk, or slice of factors: an urgent message may have to wait for
                       one; at least 4 */
    size_t merge;   /* neighbouring groups of one mergeable scheme travel together up to this size;
                       0: each alone */
    size_t window;  /* bytes in flight of one rank, an eighth of it to one other rank; read by
                       simulator and sync */
    size_t latency; /* bytes that a link carries in the latency of one message; 0:
                       PLAN_USUAL_LATENCY_BYTES. Over more than PLAN_FEW_HOMES homes a bucket is
                       spread in parts of at least twice this size */
};

struct plan_options {
    const struct scheme *const *registry; /* of all schemes there are; outlives the plan */
    struct comm comm;
    enum wire_format wire;  /* of every way but those of `ways` */
    const struct way *ways; /* COMM_AUTO: one per group; one that cannot move the group, or has no
                               scheme, means the parameter server. Borrowed for plan_create */
    int nranks;             /* all of them */
    int servers; /* > 0: that many dedicated server ranks, the last ones; 0: every worker is also a
                    server */
    const int *nodes;  /* per worker: its node, numbered as they first come; a node's workers add up
                          among themselves and the first of them, their leader, sends for all. NULL:
                          every worker is its own leader. Borrowed for plan_create */
    const int *parts;  /* per worker: the samples of its passes; NULL: all workers have as many.
                          Borrowed for plan_create */
    int batch;         /* with parts: the samples that a group's rows (struct group.k) are of */
    const int *grains; /* per worker: how many gradients of a row of many it adds up, of which all
                          are added along one tree (device/tree_sum.h), so that the sum does not
                          depend on who has which; NULL: a gradient of each worker is added along a
                          tree of workers. Not with nodes or codecs. Borrowed for plan_create */
    int leaders_per_host; /* leaders that share a host's link, for the simulator alone; 0: 1 */
    int rails; /* how many of a node's workers lead it, each for its chunks (rails.c); 0: 1. No more
                  than the largest node has */
    struct plan_sizes sizes;
    bool lags;           /* workers may be in different iterations: no trees */
    int drop;            /* number of workers, the last ones, whose gradients of a chunk nobody
                            waits for; with `lags`, and schemes that serve parameters alone */
    bool in_turn;        /* another system's: what has one owner goes to the servers in turn, each
                            parameter of the net by itself */
    int tree_leaders;    /* > 0: with this number of leaders every bucket that can travels along a
                            tree; 0: from PLAN_LOG_LEADERS leaders on the buckets for which that
                            is faster do */
    size_t factor_bytes; /* most that all workers' factors of a bucket take; more come in rounds.
                            0: PLAN_FACTOR_BYTES or twice the parameters */
    int iter_size;       /* micro-batches per iteration: SFB sends the factors of all of them */
    int dilate; /* > 1: once schemes are chosen, buckets shrink to 1/dilate of their elements and
                   factors to 1/dilate of their width: 1/dilate of the bytes. For the replay
                   engine alone */
};

/* The unit of communication: a group of the net, or several neighbours if each alone would cost
 * more in messages than in bytes. Its traffic starts when all its groups have their gradients. */
struct bucket {
    const char *name;    /* "ip1", or "conv1 .. conv3"; owned by the plan */
    int layer;           /* of its first group, for the trace */
    size_t begin, elems; /* in the arenas; elems counts the padding between groups; dilated */
    bool trains, decays; /* as its groups do (struct group) */
    bool factorable;     /* false where it holds several groups */
    int64_t m, n, k;     /* of a factorable one; m and n dilated */
    int rounds; /* in which all workers exchange their factors, plan_round_rows rows each at a time;
                   1: at once, or no factors go to all */
    int slices; /* messages that a worker's factors of a round go to each other worker in, of a
                   chunk's bytes at most: something larger would keep the links to all others idle
                   while one worker gets it. 1: no factors go to all */
    int first_group, ngroups;    /* of the net's groups */
    const struct scheme *scheme; /* NULL: nothing travels (does not train, or --comm=none) */
    int rank; /* > 0: factors of that rank travel in the gradient's place (plan_low_rank) */
    enum wire_format wire; /* of what travels where there are several workers */
    struct way_text label; /* of these, for people */
    int first_chunk, nchunks;
    int moved; /* number of its chunks that travel: all; of low rank the first ones, each a piece */
    int first_share, nshares;            /* of plan->shares */
    uint64_t gradient_bytes, back_bytes; /* of all shares together */
    /* Gradients are reduced to each chunk's home, and its answer sent, along a tree (plan/tree.h)
     * instead of directly: a message between every leader and one home would take longer than the
     * tree's few steps one after another. */
    bool log_steps;
};

/* The unit that a home adds up and sends back (the paper's KV pair): contiguous in one bucket. */
struct chunk {
    int bucket;
    size_t begin; /* element offset in the arenas */
    size_t elems;
    size_t rows; /* the codec's rows; 1 where it has none */
    int home;    /* the leader that adds the gradients up; where nobody does, the one that gives its
                    norm for clipping */
    int rail;    /* below plan->rails: which of a leader's ranks moves it, see plan_rank */
};

/* A bucket's chunks of one home, together. */
struct home_share {
    int home, chunks;
    uint64_t elems;
    uint64_t gradient_bytes, back_bytes; /* one gradient of them, and what comes back, encoded */
};

/* A block of the tree along which gradients are added (device/tree_sum.h). */
struct plan_branch {
    int begin, level;
};

/* The *leaders* exchange messages: one worker of each node, or all workers if there are no nodes,
 * then the dedicated servers. Leaders are numbered from 0 in the order of their world ranks. With
 * several rails, a leader is several workers of its node, each for its chunks. */
struct plan {
    struct owner owner;          /* of its arrays */
    struct plan_options options; /* its borrowed pointers but the registry are NULL */
    int nworkers, nservers;      /* among the leaders */
    bool dedicated;              /* servers are ranks of their own */
    int ncomputing;              /* workers in all, whose gradients the mean is of */
    int nleaders;                /* nworkers and dedicated servers */
    int *leader;                 /* per world rank: the number of who leads it */
    int *world_rank;             /* per leader: its rank, or the first of them */
    int rails;                   /* at least 1 */
    int *rail_rank;              /* per leader and rail: its rank */
    int *locals;     /* per leader that is a worker: the workers it leads, itself included; 0 for
                        dedicated servers */
    int most_locals; /* the largest of them */
    int *part;       /* per worker: options.parts */
    int *parts;      /* per leader: of the workers that it leads, together */
    int most_parts, all_parts; /* the largest of them, and their sum */
    int leaves; /* of the tree that gradients are added along: the workers, or grains */
    bool in_grains;
    struct plan_branch *branches; /* of it, worker by worker: what a worker sends the sums of */
    int *first_branch;            /* per worker, and one more */
    bool in_rounds; /* some bucket's factors are exchanged in several rounds, or are of low rank:
                       there is something to multiply between messages */
    int ngroups;
    const struct group *groups; /* a copy of the net's, with parts of one sample each; their names
                                   and params are borrowed */
    int nbuckets;
    struct bucket *buckets; /* forward order */
    int *bucket_of;         /* per group of the net */
    int nchunks;
    struct chunk *chunks; /* bucket by bucket */
    int nshares;
    struct home_share *shares; /* bucket by bucket, ascending by home; none of a bucket that nobody
                             adds up */
};

/* Makes a plan for the groups of a net, whose names and params must outlive the plan. Buckets, with
 * the largest chunks first, are dealt to the servers (or workers) with the fewest bytes so far; no
 * leader gets a second chunk of a bucket before all have one, so that none is hot; a bucket whose
 * scheme has one owner is dealt whole. Time: O(groups x leaders + chunks log leaders). *out is the
 * caller's, for plan_destroy. Not collective. */
int plan_create(const struct plan_options *options, int ngroups, const struct group *groups,
                struct plan **out);

/* Frees the plan; NULL is allowed. */
void plan_destroy(struct plan *plan);

/* BestScheme (USENIX ATC'17, section 3.2): true if SFB moves an M x N fully connected layer of K
 * rows per worker with no more bytes than the parameter server: 2K(P1-1)(M+N) <= 2MN(P1+P2-2)/P2,
 * P1 workers and P2 servers. Exact integer arithmetic. */
bool plan_prefers_sfb(int64_t m, int64_t n, int64_t k, int64_t nworkers, int64_t nservers);

/* The leader that is the chunk's home. */
static inline int plan_home(const struct plan *plan, int chunk)
{
    return plan->chunks[chunk].home;
}

/* The codec of the chunk's gradient on the wire; NULL: floats. */
const struct codec *plan_codec(const struct plan *plan, int chunk);

/* Bytes of one gradient of the chunk on the wire. */
size_t plan_gradient_bytes(const struct plan *plan, int chunk);

/* Bytes of the home's answer for the chunk on the wire. */
size_t plan_back_bytes(const struct plan *plan, int chunk);

/* Whether the world rank computes; dedicated servers do not. */
bool plan_is_worker(const struct plan *plan, int world_rank);

/* Whether the world rank is a leader, or one of a leader's rails, and so exchanges messages. */
bool plan_leads(const struct plan *plan, int world_rank);

/* The number of a leader's ranks (rails). */
static inline int plan_leaders_of(const struct plan *plan, int leader)
{
    int ranks = leader < plan->nworkers ? plan->locals[leader] : 1;

    return ranks < plan->rails ? ranks : plan->rails;
}

/* The world rank that moves the chunk for a leader. */
static inline int plan_rank(const struct plan *plan, int leader, int chunk)
{
    return plan->rail_rank[leader * plan->rails + plan->chunks[chunk].rail];
}

/* Whether the world rank moves the chunk for its own leader. */
static inline bool plan_leads_chunk(const struct plan *plan, int chunk, int world_rank)
{
    return plan_rank(plan, plan->leader[world_rank], chunk) == world_rank;
}

/* The number of sums of which a worker's gradient of a chunk consists; they lie one behind the
 * other in its message. */
static inline int plan_branches(const struct plan *plan, int worker)
{
    return plan->first_branch[worker + 1] - plan->first_branch[worker];
}

/* Whether there is one worker and no dedicated server, so that nothing crosses a network. */
static inline bool plan_is_alone(const struct plan *plan)
{
    return plan->nworkers == 1 && !plan->dedicated;
}

/* Rows of a bucket's factors of the leader with the most rows. */
static inline int64_t plan_most_rows(const struct plan *plan, int bucket)
{
    return plan->buckets[bucket].k * plan->options.iter_size * plan->most_parts;
}

/* Rows of these factors in one round. */
static inline int64_t plan_round_rows(const struct plan *plan, int bucket)
{
    int64_t rounds = plan->buckets[bucket].rounds;

    return (plan_most_rows(plan, bucket) + rounds - 1) / rounds;
}

/* Traffic of a world rank for one bucket in one iteration; zero for ranks that are no leaders. */
struct traffic plan_traffic(const struct plan *plan, int bucket, int world_rank);

/* Messages that the world rank sends per iteration, of all buckets. */
uint64_t plan_messages(const struct plan *plan, int world_rank);

/* Bytes that the world rank keeps for communication, beside parameters, gradients and history. */
uint64_t plan_memory(const struct plan *plan, int world_rank);

/* The way in which a group travels. */
static inline struct way plan_way(const struct plan *plan, int group)
{
    const struct bucket *b = &plan->buckets[plan->bucket_of[group]];

    return (struct way){b->scheme, b->rank, b->wire};
}

/* A hash of the plan and of `seed`, by which ranks compare their plans. */
uint64_t plan_digest(const struct plan *plan, uint64_t seed);

/* The names of enum wire_format, ended by NULL. */
extern const char *const wire_words[];

/* The urgency of a bucket's messages: the smallest is sent first. Messages of an iteration go
 * before those of the next one, since a rank that is ahead gains nothing from its gradients until
 * the ranks behind have sent theirs. Within an iteration, the bucket that forward needs first goes
 * first. */
static inline int64_t plan_urgency(const struct plan *plan, int bucket, int64_t iteration)
{
    return iteration * plan->nbuckets + bucket;
}

#endif
