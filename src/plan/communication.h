/* The options of communication, as train, plan and libposeidon have them. */
#ifndef POSEIDON_PLAN_COMMUNICATION_H
#define POSEIDON_PLAN_COMMUNICATION_H

#include "plan/cost.h"
#include "plan/plan.h"
#include "util/option.h"

/* What --hierarchy says where it is not a number of ranks. */
enum {
    HIERARCHY_AUTO = -1, /* all ranks of a machine form a node where that pays */
    HIERARCHY_OFF = 0    /* every rank is a node of its own */
};

/* Where the rows of communication write. To outlive their parsing. */
struct communication_rows {
    const struct scheme *const *registry;
    struct comm *comm;
    enum wire_format *wire;
    struct ways *lossy;
    enum cost_overlap *overlap;
    int *servers;
    int *hierarchy, *leaders; /* the former HIERARCHY_AUTO, _OFF or a number of ranks */
    bool *fifo;
    struct plan_sizes *sizes;
    /* Of --comm, where that takes more than comm_parse does; else NULL. `also`: for it. */
    int (*parse)(const char *option, const char *text, void *rows);
    void *also;
    char comm_words[COMM_HELP_BYTES]; /* the help of --comm; filled here */
};

/* comm, lossy, overlap, wire, servers, hierarchy; behind --tune=order, window, chunk and merge. */
void communication_add_rows(struct option_rows *rows, struct communication_rows *to);

/* After parsing: fails where what they were given does not go together. name: what --comm was;
 * NULL: as comm_name has it. */
int communication_check(const struct communication_rows *given, const char *name);

#endif
