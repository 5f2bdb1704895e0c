/* What an iteration lasts when all buckets' traffic shares the link with the passes going on beside
 * it, and the search for schemes and a size of merging that make it shortest. Pure arithmetic. */
#ifndef POSEIDON_PLAN_TIMELINE_H
#define POSEIDON_PLAN_TIMELINE_H

#include "plan/cost.h"

/* The computation of one iteration on one rank, and which layer of it each group hangs on. */
struct cost_work {
    int nlayers;
    double *forward, *backward; /* seconds per layer */
    int ngroups;
    int *layer; /* per group: the lowest layer that reads it. Its backward makes the gradient
                   final, its next forward waits for the parameters */
};

/* All zero; fails for want of memory. */
int cost_work_create(int nlayers, int ngroups, struct cost_work *out);
void cost_work_free(struct cost_work *work);

double cost_work_seconds(const struct cost_work *work);

/* Stretches all seconds so that one pass forward and backward lasts that long. */
void cost_work_scale(struct cost_work *work, double seconds);

/* How much communication is hidden behind computation; as train's --overlap. */
enum cost_overlap {
    COST_OVERLAP_NONE,     /* traffic starts after backward, forward waits for all of it */
    COST_OVERLAP_BACKWARD, /* traffic starts per layer, forward waits for all of it */
    COST_OVERLAP_WFBP,     /* and forward waits per layer, the most urgent layer goes first */
    COST_OVERLAPS
};

/* "none", "backward", "wfbp": --overlap's words, by enum cost_overlap, ended by NULL. */
extern const char *const cost_overlap_words[];
const char *cost_overlap_name(enum cost_overlap overlap);

struct cost_iteration {
    double seconds;         /* from one iteration's start to the next one's */
    double compute_seconds; /* the passes, updates, rebuilding, what is stolen from them */
    double wire_seconds;    /* the busiest link is taken */
    double exposed_seconds; /* seconds - compute_seconds: the network was waited for */
    double sent, received;  /* bytes of the rank that moves most, mean over its role */
    uint64_t bytes;         /* of all ranks together */
};

/* A timeline of things that travel, each of which hangs on one layer. */
struct timeline;

/* layer: per item; in forward order of the items. All is copied but `work`. Fails for want of
 * memory. */
int timeline_create(const struct cost_work *work, int nitems, const int *layer,
                    enum cost_overlap overlap, struct timeline **out);
void timeline_destroy(struct timeline *timeline);

/* Plays iterations until they repeat. costs: one per item. */
void timeline_play(struct timeline *timeline, const struct cost *costs, struct cost_iteration *out);

/* The layer that a bucket of a plan of the work's groups hangs on: the lowest of its groups'. */
int cost_layer_of(const struct cost_work *work, const struct plan *plan, int bucket);

/* Makes the plan, prices it and plays it. Fails as plan_create does. */
int cost_predict(const struct cost_work *work, const struct cost_cluster *cluster,
                 const struct plan_options *how, const struct group *groups,
                 enum cost_overlap overlap, struct cost_iteration *out);

/* ---- search ---- */

struct cost_question {
    const struct cost_work *work;
    const struct cost_cluster *cluster;
    const struct plan_options *how; /* .comm and .schemes are not read. merge_bytes may be
                                       COST_SIZE_CHOSEN: to be chosen, too */
    bool whole_gradients;           /* no scheme that moves factors may be chosen */
    const struct group *groups;     /* work->ngroups of them */
    enum cost_overlap overlap;
};

struct cost_answer {
    const struct scheme **scheme; /* per group; NULL where it does not train; to be freed */
    size_t merge_bytes;
    struct cost_iteration iteration;
};

/* Whether the scheme, or the paper's rule, may be the answer: what is not lossless never is. */
bool cost_may_choose(const struct cost_question *question, const struct scheme *scheme);
bool cost_may_choose_paper(const struct cost_question *question);

/* One scheme per group and one size of merging, so that the iteration is shortest as the model has
 * it: a candidate of the choice (simulate/choose.h). First without merging: starts from the better
 * of "every group by what is cheapest for it alone" and each single scheme, then changes single
 * groups while that shortens the iteration by more than a thousandth. Alone, equal seconds (to 1e-9
 * of them) go to fewer bytes, then to the earlier in the registry. Then real plans of that are
 * priced with every size of merging (the optimum that MG-WFBP looks for; Shi et al., INFOCOM 2019);
 * another size than suits the network must promise 2 %. The same on every rank where the figures
 * are. */
int cost_search(const struct cost_question *question, struct cost_answer *out);
void cost_answer_free(struct cost_answer *answer);

#endif
