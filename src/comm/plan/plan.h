/* The plan: which scheme moves which group of parameters, how groups are merged into buckets and
 * cut into chunks, which rank adds which chunk up, and how many bytes that puts on the wire. Pure
 * arithmetic: no MPI, the same on every rank, and usable without a cluster. */
#ifndef POSEIDON_PLAN_PLAN_H
#define POSEIDON_PLAN_PLAN_H

#include "plan/comm.h"
#include "util/owner.h"

enum {
    PLAN_LEAST_PART = 4096, /* elements of the smallest part that a bucket is spread in */
    /* most bytes of a message: MPI counts what is sent, and the bytes that came, in ints */
    PLAN_LARGEST_MESSAGE = INT32_MAX / 4 * 4,
    PLAN_FEW_HOMES = 8,   /* homes up to which plan_sizes.latency does not bound parts */
    PLAN_LOG_LEADERS = 32 /* fewest leaders for which a bucket travels along a tree */
};

/* Bytes that a link carries in the latency of one message, if nothing was measured: 26 us at 10
 * Gbit/s. */
#define PLAN_USUAL_LATENCY_BYTES ((size_t)32 << 10)

/* Memory limit of a bucket's received factors, or twice its parameters if that is more. */
#define PLAN_FACTOR_BYTES ((size_t)4 << 20)

/* Memory for communication, beside parameters, gradients and history: on up to 1,024 ranks plans of
 * the usual sizes keep at most twice the parameters and this. */
#define PLAN_MEMORY_FREE ((size_t)64 << 20)

/* Sizes of messages, in bytes. */
struct plan_sizes {
    size_t chunk; /* largest chunk, or slice of factors; an urgent message may have to wait for one;
                     at least 4 */
    size_t merge; /* size up to which neighbouring groups of one mergeable scheme travel together;
                     0: each alone */
    size_t window;  /* bytes in flight of one rank, an eighth of them to one other rank; read by
                       simulator and sync */
    size_t latency; /* bytes that a link carries in the latency of one message; 0:
                       PLAN_USUAL_LATENCY_BYTES. Over more than PLAN_FEW_HOMES homes a bucket is
                       spread in parts of at least twice this size */
};

struct plan_options {
    const struct scheme *const *registry; /* all schemes; outlives the plan */
    struct comm comm;
    enum wire_format wire;  /* wire format of all ways but those in `ways` */
    const struct way *ways; /* COMM_AUTO: one per group; the parameter server replaces a way that
                               has no scheme or cannot move the group. Borrowed for plan_create */
    int nranks;             /* number of all ranks */
    int servers;      /* number of dedicated server ranks, the last ones; 0: every worker is also a
                         server */
    const int *nodes; /* per worker: its node, numbered as nodes first come. The workers of a node
                         add up their gradients; the first of them, the leader, sends for all. NULL:
                         every worker is its own leader. Borrowed for plan_create */
    const int *parts; /* per worker: samples of its passes; NULL: all workers have as many. Borrowed
                         for plan_create */
    int batch;        /* number of samples of a group's rows (struct group.k), with `parts` */
    const int *grains;    /* per worker: number of gradients that it adds up. All workers' gradients
                             are added along one tree (device/tree_sum.h), so that the sum does not
                             depend on which worker has which. NULL: one gradient each. Not with nodes
                             or codecs. Borrowed for plan_create */
    int leaders_per_host; /* leaders that share a host's link; only the simulator uses it; 0: 1 */
    int rails; /* number of workers that lead a node, each for its chunks (rails.c); 0: 1. At most
                  the workers of the largest node */
    struct plan_sizes sizes;
    bool lags; /* workers may be in different iterations, so there are no trees */
    int drop;  /* number of late workers, the last to come, whose gradients of a chunk nobody waits
                  for; needs `lags` and schemes that serve parameters */
    bool in_turn;     /* with one owner, parameters go to the servers in turn, each by itself (other
                         systems' plans) */
    int tree_leaders; /* > 0: fewest leaders for which all buckets that can travel along a tree; 0:
                         PLAN_LOG_LEADERS, for buckets that gain by a tree */
    size_t factor_bytes; /* most bytes of all workers' factors of a bucket; more come in rounds. 0:
                            PLAN_FACTOR_BYTES or twice the parameters */
    int iter_size;       /* micro-batches per iteration; SFB sends the factors of all of them */
    int dilate; /* > 1: divisor of the elements of buckets and the width of factors, so of all
                   bytes, once schemes are chosen. For the replay engine alone */
};

/* The unit of communication: a group of the net, or several neighbours if each alone would cost
 * more in messages than in bytes. Traffic starts when all its groups have their gradients. */
struct bucket {
    const char *name;    /* "ip1", or "conv1 .. conv3"; owned by the plan */
    int layer;           /* layer of its first group, for the trace */
    size_t begin, elems; /* range in the arenas; elems is dilated, and counts padding */
    bool trains, decays; /* properties of its groups (struct group) */
    bool factorable;     /* false if the bucket holds several groups */
    int64_t m, n, k;     /* sizes of a factorable bucket; m and n dilated */
    int rounds; /* rounds in which all workers exchange factors, plan_round_rows rows of each at a
                   time; 1: at once, or no factors go to all */
    int slices; /* messages of a worker's factors to each other worker in a round, none above a
                   chunk's bytes: while one worker gets a larger message, links to others idle. 1:
                   one message, or no factors to all */
    int first_group, ngroups;    /* range in the net's groups */
    const struct scheme *scheme; /* NULL: nothing travels (does not train, or --comm=none) */
    int rank; /* > 0: rank of the factors that travel instead of the gradient (plan_low_rank) */
    enum wire_format wire; /* wire format between several workers */
    struct way_text label; /* scheme, rank and format, for people */
    int first_chunk, nchunks;
    int moved; /* number of chunks that travel: all; with low rank the first ones, each a piece */
    int first_share, nshares;            /* range in plan->shares */
    uint64_t gradient_bytes, back_bytes; /* sums over all shares */
    /* True if gradients go to each chunk's home, and its answer back, along a tree (plan/tree.h)
     * instead of directly: a message between every leader and one home would take longer than the
     * tree's few steps one after another. */
    bool log_steps;
};

/* The unit that a home adds up and sends back (the paper's KV pair), contiguous in one bucket. */
struct chunk {
    int bucket;
    size_t begin; /* element offset in the arenas */
    size_t elems;
    size_t rows; /* rows of the codec; 1 without rows */
    int home; /* leader that adds the gradients up; without a sum, the leader that gives the chunk's
                 norm for clipping */
    int rail; /* rail, below plan->rails: which of a leader's ranks moves the chunk (plan_rank) */
};

/* All chunks of a bucket with the same home. */
struct home_share {
    int home, chunks;
    uint64_t elems;
    uint64_t gradient_bytes, back_bytes; /* encoded bytes of one gradient, and of the answer */
};

/* A block of the tree along which gradients are added (device/tree_sum.h). */
struct plan_branch {
    int begin, level;
};

/* A plan. Its *leaders* exchange messages: one worker of each node, or all workers if there are no
 * nodes, then the dedicated servers. Leaders are numbered from 0 in the order of their world ranks.
 * With several rails, a leader is several workers of its node, each for its chunks. */
struct plan {
    struct owner owner;          /* owner of the plan's arrays */
    struct plan_options options; /* its borrowed pointers but the registry are NULL */
    int nworkers, nservers;      /* numbers of leaders that compute, and that serve */
    bool dedicated;              /* true if servers are ranks of their own */
    int ncomputing;              /* number of workers, whose gradients are averaged */
    int nleaders;                /* nworkers, and dedicated servers */
    int *leader;                 /* per world rank: number of its leader */
    int *world_rank;             /* per leader: its world rank, the first of its ranks with rails */
    int rails;                   /* number of rails, at least 1 */
    int *rail_rank;              /* per leader and rail: the world rank */
    int *locals; /* per leader: number of workers that it leads, itself included; 0 for dedicated
                    servers */
    int most_locals;           /* largest of `locals` */
    int *part;                 /* per worker: options.parts, or 1 */
    int *parts;                /* per leader: sum of its workers' `part` */
    int most_parts, all_parts; /* largest, and sum, of `parts` */
    int leaves;                /* leaves of the tree that adds up gradients: workers, or grains */
    bool in_grains;
    struct plan_branch *branches; /* blocks of the tree whose sums workers send, by worker */
    int *first_branch; /* per worker: index of its first branch; one more ends the last */
    bool in_rounds; /* true if factors of some bucket travel in several rounds, or are of low rank:
                       products are due between messages */
    int ngroups;
    const struct group *groups; /* copy of the net's groups, with rows of one sample if
                                   options.parts; names and params are borrowed */
    int nbuckets;
    struct bucket *buckets; /* buckets in forward order */
    int *bucket_of;         /* per group of the net: its bucket */
    int nchunks;
    struct chunk *chunks; /* chunks of all buckets, one bucket after another */
    int nshares;
    struct home_share *shares; /* bucket by bucket, by home; none for buckets without home */
};

/* Makes a plan for the groups of a net, whose names and params must outlive the plan. Deals
 * buckets, the largest chunks first, to the servers (or workers) with the fewest bytes so far. No
 * leader gets a second chunk of a bucket before all have one, so that none is hot; a bucket with
 * one owner is dealt whole. Time: O(groups x leaders + chunks log leaders). The caller frees *out
 * by plan_destroy. Not collective. */
int plan_create(const struct plan_options *options, int ngroups, const struct group *groups,
                struct plan **out);

/* Frees the plan; NULL is allowed. */
void plan_destroy(struct plan *plan);

/* BestScheme (USENIX ATC'17, section 3.2): true if SFB moves an M x N fully connected layer of K
 * rows per worker with no more bytes than the parameter server: 2K(P1-1)(M+N) <= 2MN(P1+P2-2)/P2,
 * P1 workers and P2 servers. Exact integer arithmetic. */
bool plan_prefers_sfb(int64_t m, int64_t n, int64_t k, int64_t nworkers, int64_t nservers);

/* Returns the leader that is the chunk's home. */
static inline int plan_home(const struct plan *plan, int chunk)
{
    return plan->chunks[chunk].home;
}

/* Returns the codec of the chunk's gradient on the wire; NULL: floats. */
const struct codec *plan_codec(const struct plan *plan, int chunk);

/* Returns the bytes of one gradient of the chunk on the wire. */
size_t plan_gradient_bytes(const struct plan *plan, int chunk);

/* Returns the bytes of the home's answer for the chunk on the wire. */
size_t plan_back_bytes(const struct plan *plan, int chunk);

/* True if the world rank computes; dedicated servers do not. */
bool plan_is_worker(const struct plan *plan, int world_rank);

/* True if the world rank is a leader, or one of a leader's rails, and so exchanges messages. */
bool plan_leads(const struct plan *plan, int world_rank);

/* Returns the number of a leader's ranks (rails). */
static inline int plan_leaders_of(const struct plan *plan, int leader)
{
    int ranks = leader < plan->nworkers ? plan->locals[leader] : 1;

    return ranks < plan->rails ? ranks : plan->rails;
}

/* Returns the world rank that moves the chunk for the leader. */
static inline int plan_rank(const struct plan *plan, int leader, int chunk)
{
    return plan->rail_rank[leader * plan->rails + plan->chunks[chunk].rail];
}

/* True if the world rank moves the chunk for its own leader. */
static inline bool plan_leads_chunk(const struct plan *plan, int chunk, int world_rank)
{
    return plan_rank(plan, plan->leader[world_rank], chunk) == world_rank;
}

/* Returns the number of sums that a worker's gradient of a chunk consists of; a message holds these
 * one behind the other. */
static inline int plan_branches(const struct plan *plan, int worker)
{
    return plan->first_branch[worker + 1] - plan->first_branch[worker];
}

/* True if there is one worker and no dedicated server, so that nothing crosses a network. */
static inline bool plan_is_alone(const struct plan *plan)
{
    return plan->nworkers == 1 && !plan->dedicated;
}

/* Returns the rows of the bucket's factors on the leader with the most rows. */
static inline int64_t plan_most_rows(const struct plan *plan, int bucket)
{
    return plan->buckets[bucket].k * plan->options.iter_size * plan->most_parts;
}

/* Returns the rows of a bucket's factors that a leader sends in one round, at most. */
static inline int64_t plan_round_rows(const struct plan *plan, int bucket)
{
    int64_t rounds = plan->buckets[bucket].rounds;

    return (plan_most_rows(plan, bucket) + rounds - 1) / rounds;
}

/* Returns a world rank's traffic for one bucket in an iteration; zero if the rank does not lead. */
struct traffic plan_traffic(const struct plan *plan, int bucket, int world_rank);

/* Returns the messages that the world rank sends per iteration, for all buckets. */
uint64_t plan_messages(const struct plan *plan, int world_rank);

/* Returns the bytes that the rank keeps for communication beside parameters, gradients, history. */
uint64_t plan_memory(const struct plan *plan, int world_rank);

/* Returns the way in which the group travels. */
static inline struct way plan_way(const struct plan *plan, int group)
{
    const struct bucket *b = &plan->buckets[plan->bucket_of[group]];

    return (struct way){b->scheme, b->rank, b->wire};
}

/* Returns a hash of the plan and of `seed`, by which ranks compare their plans. */
uint64_t plan_digest(const struct plan *plan, uint64_t seed);

/* Words of enum wire_format, ended by NULL. */
extern const char *const wire_words[];

/* Returns the urgency of a bucket's messages: the smallest is sent first. Messages of an iteration
 * go before those of the next one, since a rank that is ahead gains nothing from its gradients
 * until the ranks behind have sent theirs. Within an iteration, forward's order
 * counts. */
static inline int64_t plan_urgency(const struct plan *plan, int bucket, int64_t iteration)
{
    return iteration * plan->nbuckets + bucket;
}

#endif
