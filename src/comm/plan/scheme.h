/* The seam of communication schemes: how the gradient of a bucket becomes everybody's new
 * parameters. A scheme is one constant table in one file (src/comm/sync/ps.c, sfb.c, ...) and one
 * line in the registry (src/comm/sync/scheme_registry.c). The plan asks a table what the scheme can
 * move, where it adds up, in what form gradients travel, how many bytes that is and what it costs;
 * sync runs its steps. Nobody else names a scheme. */
#ifndef POSEIDON_PLAN_SCHEME_H
#define POSEIDON_PLAN_SCHEME_H

#include "device/group.h"

struct bucket;
struct codec; /* device/codec.h */
struct cost;
struct cost_cluster;
struct plan;
struct scheme_steps; /* sync/steps.h */

/* The home of a chunk: the leader that adds up its gradients. */
enum scheme_home {
    HOME_SERVERS, /* chunks are dealt to the servers (every worker, or dedicated ranks) */
    HOME_WORKERS, /* chunks are dealt to the workers */
    HOME_OWNER,   /* all chunks of a bucket belong to one server */
    HOME_NOBODY,  /* every worker makes the sum itself */
};

/* Bytes that one rank sends and receives in one iteration. Messages have no headers: their tags
 * name the chunk. */
struct traffic {
    uint64_t sent, received;
    uint64_t messages; /* number of messages sent */
};

enum wire_format {
    WIRE_FP32,
    WIRE_BF16, /* gradients of PS and allreduce, and allreduce's sums, as bfloat16 with error
                  feedback; factors as bfloat16 without it */
};

struct scheme {
    const char *name;  /* name in --comm: "ps" */
    const char *label; /* name in tables: "PS" */
    const char *help;  /* line for --help, without a full stop */
    enum scheme_home home;
    bool factors; /* moves sufficient factors, only for factorable groups */
    int rank; /* > 0: default rank of the low-rank factors that replace a matrix; only for groups
                 whose first parameter has twice the factors' elements */
    bool mergeable; /* small neighbouring groups may travel as one bucket */
    bool trees;     /* gradients may travel along trees (struct bucket.log_steps) */
    bool sliced;   /* chunks are independent and move as in plan_home_traffic, so that several ranks
                      of a leader (rails) may share a bucket */
    bool lossless; /* --comm=auto may choose it: results change by rounding alone */
    bool lossy;    /* --comm=auto may choose it if --lossy names it: what it rounds away is sent
                      later */
    /* True if the scheme can move the group; the parameter server moves the others. NULL: every
     * group that trains, or with `factors` every factorable one. */
    bool (*can_move)(const struct group *group);
    /* Returns the elements that chunks of the bucket's weight must be a multiple of, such as a
     * codec's row; the weight (first m x n elements) is cut by itself. NULL: cut anywhere. */
    size_t (*unit)(const struct bucket *bucket);
    /* Returns the codec of the chunk's gradient on its way home. NULL, or a NULL slot: floats. */
    const struct codec *(*codec)(const struct plan *plan, int chunk);
    /* True: the home's answer is a sum, encoded like gradients; false: parameters as floats. */
    bool codec_back;
    /* Returns the traffic of `rank` (a leader's number in the plan) for the bucket. Leaders of one
     * role that lead as many workers, and are home of no chunk of the bucket, have the same traffic
     * and the same memory. */
    struct traffic (*traffic)(const struct plan *plan, int bucket, int rank);
    /* Returns the bytes that `rank` keeps beside parameters, gradients and history. */
    uint64_t (*memory)(const struct plan *plan, int bucket, int rank);
    /* Sets sum_seconds and compute_seconds of the planned bucket (plan/cost.h). */
    void (*cost)(const struct cost_cluster *cluster, const struct plan *plan, int bucket,
                 struct cost *out);
    const struct scheme_steps *steps;
};

/* ---- registries: schemes in the order of --help, ended by NULL (sync_schemes, or a test's). The
 * first is the parameter server, which moves what others cannot ---- */

/* Returns the scheme of that name (--comm's), or NULL. */
const struct scheme *scheme_find(const struct scheme *const *registry, const char *name);

/* Returns the scheme that the paper's rule compares with the parameter server: the first lossless
 * one that moves factors, or NULL. */
const struct scheme *scheme_of_factors(const struct scheme *const *registry);

/* Returns the scheme's index in the registry, for traces and messages of ranks; -1 for NULL. */
int scheme_index(const struct scheme *const *registry, const struct scheme *scheme);

/* Returns the scheme of that index; NULL for -1. */
const struct scheme *scheme_at(const struct scheme *const *registry, int index);

/* Returns the scheme's name in tables; "-" for NULL. */
const char *scheme_label(const struct scheme *scheme);

/* True if the scheme can move the group. rank: rank of its low-rank factors, if it has any. */
bool scheme_can_move(const struct scheme *scheme, const struct group *group, int rank);

/* ---- ways: a scheme, its rank and its wire format ---- */

struct way {
    const struct scheme *scheme; /* NULL: nothing travels */
    int rank;                    /* rank of the scheme's low-rank factors; 0: it has none */
    enum wire_format wire;       /* WIRE_FP32 unless scheme_takes_bf16 */
};

/* True if the scheme's messages may be bfloat16. */
bool scheme_takes_bf16(const struct scheme *scheme);

/* True if the scheme moves gradients, which can be added up on the way, and not factors. */
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
/* Returns the way as options write it: "ps", "lowrank:4", "sfb/bf16"; "none" without a scheme. */
struct way_text way_name(struct way way);

/* Returns the way as tables write it: "PS", "low rank 4", "SFB bf16"; "-" without scheme. */
struct way_text way_label(struct way way);

enum { WAYS_MOST = 32 };
struct ways {
    struct way way[WAYS_MOST];
    int n;
    const char *text; /* text that ways_parse_lossy read; borrowed; or NULL */
};

/* Returns the way's index in the list, or -1. */
int ways_find(const struct ways *ways, struct way way);

/* Parses a list of lossy ways, as "bf16,lowrank:2,onebit", also with + as separator. bf16 becomes a
 * way without a scheme, which stands for all lossless schemes. Fails with a message that lists the
 * possible words and names the option. `text` must outlive *out. */
int ways_parse_lossy(const struct scheme *const *registry, const char *option, const char *text,
                     struct ways *out);

/* Lists the ways that --comm=auto may choose from: all lossless schemes in the form `wire`, then
 * those that `lossy` (may be NULL) adds. Returns the number of the former. */
int ways_list(const struct scheme *const *registry, enum wire_format wire, const struct ways *lossy,
              struct ways *out);

#endif
