/* The one choice behind --comm=auto, of plan, train and its --dry-run: in which way each group
 * travels, up to which size neighbours are merged, how much a rank has in flight. Every candidate
 * is played by the simulator; the shortest is taken. No MPI, no net; the same figures give the same
 * answer. */
#ifndef POSEIDON_SIMULATE_CHOOSE_H
#define POSEIDON_SIMULATE_CHOOSE_H

#include "simulate/simulate.h"

/* All borrowed. */
struct choose_question {
    const struct plan_options *how; /* comm and ways are not read. sizes: COST_SIZE_CHOSEN is to be
                                       chosen, too */
    const struct ways *lossy;       /* may be chosen beside lossless schemes in how->wire */
    const struct group *groups;     /* play.work->ngroups of them */
    bool whole_gradients;           /* nothing that moves factors may be chosen */
    bool quick;                     /* the mixes alone, with the usual sizes: enough to compare
                                       networks by */
    struct simulate_options play;   /* where candidates are played: work (of one iteration, all its
                                       micro-batches), overlap, cluster, ranks_per_node, fifo,
                                       bytes_per_second, leaf_nodes, ... plan and iterations
                                       are not read */
};

/* Lossless schemes, the paper's rule and the mixes; the same again with what is lossy. */
enum { CHOOSE_ROWS = 32 };

/* A candidate at its best size of merging and window. */
struct choose_row {
    struct way_text name;  /* "paper", "ps", "mixed", "lowrank:2", "ps/bf16", "mixed lossy" */
    struct comm comm;      /* COMM_AUTO: each group by what is cheapest for it */
    enum wire_format wire; /* of the others */
    int mix;               /* of these, by what measure */
    struct plan_sizes sizes;
    double seconds; /* of an iteration, as it was played */
};

struct choose_answer {
    struct way *way; /* per group; without a scheme where it does not train; owned */
    struct plan_sizes sizes;
    double seconds; /* of an iteration: no row's is less, but for what is not worth its rounding */
    double compute_seconds; /* of that, what the ways add to the passes of a worker of pace 1 */
    struct choose_row row[CHOOSE_ROWS];
    int nrows, taken; /* the row that the answer is */
    struct ways ways; /* that there were; the first nexact are lossless */
    int nexact;
    int nexact_rows;      /* the first rows: all of them without question->lossy */
    double exact_seconds; /* of the best of these */
};

/* Candidates: the paper's rule, every lossless scheme, each for all groups, and the mixes: each
 * group by what is shortest when it is played alone (quick: by as many seconds of the passes as of
 * the link), by the seconds that it takes of the link, and by those and as many times those of the
 * passes as let one of the last groups be as well off without factors (the less the link is waited
 * for, the more the passes count). Each is
 * merged as suits the network and not at all (or up to how->sizes.merge, where that is given). The
 * best three plans, and all that are within 5 % of the best, are also played with windows twice and
 * four times as wide, unless the passes alone take as long to 0.05 %: where many homes are busy,
 * one that suits a few ranks is full of messages that wait for them while links to others stand
 * idle; but what is urgent waits behind it. Equal seconds (to 1e-9 of them) go to the earlier in
 * that order. Then the same with what is lossy: each such way for all groups that it can move, and
 * the mixes of all ways; one of these is taken where it is more than 1 % faster than all before.
 * Fails as plan_create does, where a lossy way can move no group, and for want of memory. Not
 * collective. */
int choose_comm(const struct choose_question *question, struct choose_answer *out);
void choose_answer_free(struct choose_answer *answer);

/* "paper 270 ms, ps 246 ms (taken), ...": the rows, for people; out: CHOOSE_WORDS bytes. */
enum { CHOOSE_WORDS = 1024 };
void choose_print_rows(const struct choose_answer *answer, char out[CHOOSE_WORDS]);

/* Where question->lossy had something: what it saves and what it costs, in a sentence. */
void choose_print_lossy(const struct choose_answer *answer, int ngroups, char out[CHOOSE_WORDS]);

/* Whether --comm=auto asks at all. Ranks of one machine have no network between them: what they
 * measured would be memory and each other's computation, and the next run might decide otherwise.
 * So without figures that the user gave (--tune=cluster-file) they follow the paper's rule. */
bool choose_is_asked(int nmachines, int nworkers, bool given_cluster);

#endif
