/* The choice of schemes behind --comm=auto, for plan, train and train's dry run: the way of each
 * group, the largest size that neighbours are merged to, the send window. The simulator plays every
 * candidate; the shortest is taken. No MPI, no net; the same figures give the same answer. */
#ifndef POSEIDON_SIMULATE_CHOOSE_H
#define POSEIDON_SIMULATE_CHOOSE_H

#include "simulate/simulate.h"

/* A question to choose_comm. All pointers are borrowed. */
struct choose_question {
    const struct plan_options *how; /* plan options; comm and ways are not read; sizes of
                                       COST_SIZE_CHOSEN are chosen, too */
    const struct ways *lossy; /* lossy ways allowed beside lossless schemes in how->wire; or NULL */
    const struct group *groups;   /* groups of the net, play.work->ngroups of them */
    bool whole_gradients;         /* forbids schemes that move factors */
    struct simulate_options play; /* options to play candidates with; plan and iterations are not
                                     read; work is of one iteration, all its micro-batches */
};

/* Most rows of an answer: schemes, the rule, mixes; all lossless, then with lossy ways. */
enum { CHOOSE_ROWS = 32 };

/* A candidate with its best merge size and window. */
struct choose_row {
    struct way_text name;  /* "paper", "ps", "mixed", "lowrank:2", "ps/bf16", "mixed lossy" */
    struct comm comm;      /* COMM_AUTO: a mix, each group by its cheapest way */
    enum wire_format wire; /* wire format of a candidate that is no mix */
    int mix;               /* number of the mix, with COMM_AUTO */
    struct plan_sizes sizes;
    double seconds; /* simulated duration of an iteration */
};

struct choose_answer {
    struct way *way; /* per group; scheme NULL: the group does not train; owned */
    struct plan_sizes sizes;
    double seconds; /* duration of an iteration: the shortest row's, unless that is lossy and gains
                       too little */
    double compute_seconds; /* seconds that the ways add to a worker's compute time, at pace 1 */
    struct choose_row row[CHOOSE_ROWS];
    int nrows, taken; /* number of rows; index of the row taken */
    struct ways ways; /* all ways that were considered; the first nexact are lossless */
    int nexact;
    int nexact_rows;      /* number of lossless rows, which come first */
    double exact_seconds; /* duration of the best lossless row */
};

/* Chooses the way of each group, the merge size and the window. Candidates:
 * 1. the paper's rule;
 * 2. each lossless scheme for all groups;
 * 3. mixes: per group the way with the least (a) time alone, (b)
 *    link time, (c) link time + w x compute time, w = break-even of factors for each late group.
 * Each candidate is merged as suits the network and not at all, or up to how->sizes.merge if given.
 * The best three plans, and all within 5 % of the best, are also played with windows x2 and x4,
 * unless compute time alone is as long to 0.05 %. A wider window keeps
 * other links busy while messages wait for busy homes, but urgent messages wait behind it. Ties
 * (to 1e-9) go to the earlier candidate. Then come each lossy way for all groups that it can move,
 * and the mixes of all ways; one of these is taken if more than 1 % faster than all before. Fails
 * as plan_create does, if a lossy way can move no group, and for want of memory. Not collective. */
int choose_comm(const struct choose_question *question, struct choose_answer *out);
void choose_answer_free(struct choose_answer *answer);

/* Writes the rows for people: "paper 270 ms, ps 246 ms (taken)". out: CHOOSE_WORDS bytes. */
enum { CHOOSE_WORDS = 1024 };
void choose_print_rows(const struct choose_answer *answer, char out[CHOOSE_WORDS]);

/* Writes a sentence on what the lossy ways of question->lossy save and cost. */
void choose_print_lossy(const struct choose_answer *answer, int ngroups, char out[CHOOSE_WORDS]);

/* Returns true if --comm=auto plays candidates: with several workers, and several machines or
 * figures that the user gave (--tune=cluster-file). Else the paper's rule decides, as probes on one
 * machine measure memory and each other's computation, and the next run might choose anew. */
bool choose_is_asked(int nmachines, int nworkers, bool given_cluster);

#endif
