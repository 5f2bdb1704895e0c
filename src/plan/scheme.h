/* The seam of communication schemes: how the gradient of a bucket becomes everybody's new
 * parameters. A scheme is one constant table in one file (src/sync/ps.c, sfb.c, ...) and one line
 * in the registry (src/sync/scheme_registry.c). The plan asks a table what the scheme can move,
 * where it adds up, in what form gradients travel, how many bytes that is and what it costs; sync
 * runs its steps. Nobody else names a scheme. */
#ifndef POSEIDON_PLAN_SCHEME_H
#define POSEIDON_PLAN_SCHEME_H

#include "engine/group.h"

struct bucket;
struct codec; /* engine/codec.h */
struct cost;
struct cost_cluster;
struct plan;
struct scheme_steps; /* sync/steps.h */

/* Who adds a chunk's gradients up: its home. */
enum scheme_home {
    HOME_SERVERS, /* chunks are dealt to the servers (every worker, or dedicated ranks) */
    HOME_WORKERS, /* chunks are dealt to the workers */
    HOME_OWNER,   /* all chunks of a bucket belong to one server */
    HOME_NOBODY,  /* every worker makes the sum itself */
};

/* What crosses the network for one rank in one iteration, in bytes. Headers: there are none, the
 * signature rides in the message tags. */
struct traffic {
    uint64_t sent, received;
    uint64_t messages; /* sent ones */
};

enum wire_format {
    WIRE_FP32,
    WIRE_BF16, /* gradients of PS and allreduce, and allreduce's sums, as bfloat16 with error
                  feedback; factors as bfloat16 without it */
};

struct scheme {
    const char *name;  /* as --comm takes it: "ps" */
    const char *label; /* in tables: "PS" */
    const char *help;  /* one line, without a full stop */
    enum scheme_home home;
    bool factors;   /* moves sufficient factors: for factorable groups alone */
    int rank;       /* > 0: in the place of a matrix it moves factors of that rank, where --comm
                       names no other; for groups whose first parameter has twice their elements */
    bool mergeable; /* small neighbouring groups may travel as one bucket */
    bool trees;     /* its gradients may travel along trees (struct bucket.log_steps) */
    bool sliced;    /* its chunks know nothing of each other, and move as plan_home_traffic has it:
                       the ranks of a leader may share a bucket, else one of them moves it */
    bool lossless;  /* --comm=auto may choose it: no result changes but by rounding */
    bool lossy;     /* it may where --lossy names it: what it rounds away is sent later */
    /* Whether it can move the group; groups that it cannot move go by the parameter server. NULL:
     * whatever trains, or, with `factors`, whatever is factorable. */
    bool (*can_move)(const struct group *group);
    /* Elements that a chunk must be a multiple of, for the bucket's weight (its first m x n
     * elements, cut apart from the rest), e.g. a codec's row. NULL: chunks are cut anywhere. */
    size_t (*unit)(const struct bucket *bucket);
    /* How the chunk's gradient is written on its way home; NULL, or a NULL slot: as floats. */
    const struct codec *(*codec)(const struct plan *plan, int chunk);
    /* Whether what comes back from home travels in the same form (a sum) and not as floats
     * (parameters). */
    bool codec_back;
    /* Bytes that `rank` (a leader's number in the plan) sends and receives for the bucket. Of
     * several leaders of one role that lead as many workers, those that are home of no chunk of the
     * bucket have the same traffic, and the same memory. */
    struct traffic (*traffic)(const struct plan *plan, int bucket, int rank);
    /* Bytes of memory that `rank` keeps for the bucket beside parameters, gradients and history. */
    uint64_t (*memory)(const struct plan *plan, int bucket, int rank);
    /* Fills out->... for the bucket as planned (plan/cost.h). */
    void (*cost)(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                 struct cost *out);
    const struct scheme_steps *steps;
};

/* ---- registries: schemes in the order of --help, ended by NULL (sync_schemes, or a test's). The
 * first is the parameter server, which moves what others cannot ---- */

/* By --comm's name; NULL where there is none. */
const struct scheme *scheme_find(const struct scheme *const *registry, const char *name);

/* The other one that the paper's rule knows: the first lossless one that moves factors, or NULL. */
const struct scheme *scheme_of_factors(const struct scheme *const *registry);

/* Its number in the registry, for traces and messages between ranks; -1 for NULL. */
int scheme_index(const struct scheme *const *registry, const struct scheme *scheme);
const struct scheme *scheme_at(const struct scheme *const *registry, int index); /* NULL for -1 */

const char *scheme_label(const struct scheme *scheme); /* "-" for NULL */

/* Whether the scheme, of that rank where it has one, can move the group. */
bool scheme_can_move(const struct scheme *scheme, const struct group *group, int rank);

/* ---- ways: what moves a group, and in what form ---- */

struct way {
    const struct scheme *scheme; /* NULL: nothing travels */
    int rank;                    /* of the scheme's low-rank factors; 0: it has none */
    enum wire_format wire;       /* WIRE_FP32 where the scheme has no other (scheme_takes_bf16) */
};

/* Whether what it moves may travel as bfloat16. */
bool scheme_takes_bf16(const struct scheme *scheme);

/* Whether it moves gradients themselves, which add up as they are, and not factors of them. */
static inline bool scheme_sums_gradients(const struct scheme *scheme)
{
    return !scheme->factors && scheme->rank == 0;
}

static inline bool way_is(struct way a, struct way b)
{
    return a.scheme == b.scheme && a.rank == b.rank && a.wire == b.wire;
}

struct way_text {
    char text[40];
};
struct way_text way_name(struct way way);  /* "ps", "lowrank:4", "sfb/bf16"; "none" for no scheme */
struct way_text way_label(struct way way); /* "PS", "low rank 4", "SFB bf16"; "-" likewise */

enum { WAYS_MOST = 32 };
struct ways {
    struct way way[WAYS_MOST];
    int n;
    const char *text; /* that ways_parse_lossy read; borrowed. NULL: it read none */
};

/* Its number in the list; -1: it is not there. */
int ways_find(const struct ways *ways, struct way way);

/* A list of lossy ways, as "bf16,lowrank:2,onebit", or with + between the words: bf16 is a way
 * without a scheme, for all lossless ones. Fails with what a list may have. option: what messages
 * call it. `text` outlives *out. */
int ways_parse_lossy(const struct scheme *const *registry, const char *option, const char *text,
                     struct ways *out);

/* What --comm=auto may choose from: all lossless schemes in the form `wire`, then what `lossy` adds
 * (NULL: nothing) to them. Returns how many the former are. */
int ways_list(const struct scheme *const *registry, enum wire_format wire, const struct ways *lossy,
              struct ways *out);

#endif
