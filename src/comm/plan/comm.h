/* The value of --comm: a scheme for all layers, or a policy that chooses one for each layer. */
#ifndef POSEIDON_PLAN_COMM_H
#define POSEIDON_PLAN_COMM_H

#include "plan/scheme.h"

struct comm {
    enum comm_policy {
        COMM_SCHEME, /* `scheme` for every group; the parameter server for groups it cannot move */
        COMM_PAPER,  /* BestScheme (Zhang et al., USENIX ATC'17, Algorithm 1): PS or SFB */
        COMM_AUTO,   /* the choice of choose_comm, given as plan_options.ways */
        COMM_NONE,   /* no exchange, every worker trains alone: the upper bound of speed */
    } policy;
    const struct scheme *scheme; /* NULL unless COMM_SCHEME */
    int rank;         /* rank of the scheme's low-rank factors; 0: the scheme's default rank */
    const char *text; /* parsed text if that names a rank, otherwise NULL; borrowed */
};

/* Parses "auto", "paper", "none", or the name of a scheme in the registry; a low-rank scheme's may
 * be followed by a rank ("lowrank:2"). An unknown name leaves no scheme in *out, and the message
 * lists all names. option: the option's name in messages. text outlives *out. */
int comm_parse(const struct scheme *const *registry, const char *option, const char *text,
               struct comm *out);

/* Returns the value's name, as comm_parse accepts it; borrowed. */
const char *comm_name(struct comm comm);

/* Returns the rank of the scheme's factors with this --comm; 0: the scheme is not of low rank. */
int scheme_rank(const struct scheme *scheme, struct comm comm);

/* Writes a line for each name and its meaning, for --help; lines after the first are indented by
 * `indent` columns. */
enum { COMM_HELP_BYTES = 2048 };
void comm_help(const struct scheme *const *registry, int indent, char out[COMM_HELP_BYTES]);

#endif
