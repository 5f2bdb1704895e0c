/* What --comm says: a scheme for all layers, or a policy that chooses one for each. */
#ifndef POSEIDON_PLAN_COMM_H
#define POSEIDON_PLAN_COMM_H

#include "plan/scheme.h"

struct comm {
    enum comm_policy {
        COMM_SCHEME, /* every group by `scheme`, what it cannot move by the parameter server */
        COMM_PAPER,  /* BestScheme (Zhang et al., USENIX ATC'17, Algorithm 1): PS or SFB */
        COMM_AUTO,   /* what choose_comm took, given as plan_options.ways */
        COMM_NONE,   /* nothing is exchanged, every worker trains alone: the ceiling of speed */
    } policy;
    const struct scheme *scheme; /* COMM_SCHEME alone; else NULL */
    int rank;                    /* of the scheme's low-rank factors; 0: the scheme's usual one */
    const char *text;            /* what was parsed, where that names a rank; borrowed. Else NULL */
};

/* "auto", "paper", "none", or the name of a scheme in that registry, behind which one of low rank
 * may have its rank ("lowrank:2"). Fails with the list of them, and without a scheme in *out
 * where the name is unknown. option: what messages call it. text outlives the comm. */
int comm_parse(const struct scheme *const *registry, const char *option, const char *text,
               struct comm *out);

/* By what comm_parse knows it; borrowed. */
const char *comm_name(struct comm comm);

/* The rank of the scheme's factors by that --comm; 0: it is not of low rank. */
int scheme_rank(const struct scheme *scheme, struct comm comm);

/* For --help: one line for each name, with what it means; lines after the first are indented by
 * `indent` columns. */
enum { COMM_HELP_BYTES = 2048 };
void comm_help(const struct scheme *const *registry, int indent, char out[COMM_HELP_BYTES]);

#endif
