/* The user's options of communication: a struct, a table of options and a list of conflicts, for
 * `train`, `plan` and libposeidon. No MPI. */
#ifndef POSEIDON_EXCHANGE_EXCHANGE_OPTIONS_H
#define POSEIDON_EXCHANGE_EXCHANGE_OPTIONS_H

#include "plan/cost.h"
#include "sync/sync.h"
#include "util/option.h"

/* The program's part that parses options. It decides which options exist, and how messages write
 * their names: --tune=chunk for training, chunk for the library. */
enum exchange_door { EXCHANGE_TRAIN, EXCHANGE_PLAN, EXCHANGE_LIBRARY };

/* Values of `hierarchy` besides a number of ranks. */
enum {
    HIERARCHY_AUTO = -1, /* all ranks of a machine form a node where that pays */
    HIERARCHY_OFF = 0    /* every rank is a node of its own */
};

/* Options of communication. Texts are borrowed. */
struct exchange_options {
    enum exchange_door door;
    struct comm comm;      /* scheme of each layer, or the policy that chooses it */
    enum wire_format wire; /* wire format of gradients */
    struct ways lossy;     /* lossy ways that comm=auto may choose beside the lossless schemes */
    enum cost_overlap overlap; /* overlap of communication with computation */
    int servers;   /* number of dedicated server ranks, the last ones; 0: every worker serves */
    int hierarchy; /* > 0: workers of a machine that form a node, whose leader sends for all; or
                      HIERARCHY_AUTO, HIERARCHY_OFF */
    int leaders;   /* leaders of a node, each for its share of the parameters; 0: all ranks of a
                      single node without dedicated servers, otherwise 1 */
    int staleness; /* iterations that a worker may be ahead of the slowest worker */
    int drop;      /* number of workers whose gradients an iteration does not wait for */
    int dilate;    /* > 1: divisor of the bytes on the network, for replays and plans */
    int lowrank_warmup; /* iterations in which gradients travel whole before low rank begins; < 0:
                           10, or the solver's warm-up if longer */
    bool fifo;          /* true: messages leave in order of posting, not by urgency */
    bool measure; /* comm auto: measures the cluster and chooses anew, whatever a file or a snapshot
                     has */
    struct plan_sizes sizes;  /* all sizes but latency; COST_SIZE_CHOSEN: as suits the network */
    double mbps;              /* limit on this rank's sends, Mbit/s; 0: none */
    enum sync_direct direct;  /* choice of messages straight from and to device memory */
    const char *cluster_file; /* comm auto: path of the file that keeps the cluster's figures */
    double stall_timeout;     /* seconds of silence after which a rank counts as lost; 0: never */
};

/* Returns the default options. */
struct exchange_options exchange_options_usual(enum exchange_door door);

/* Appends the option rows of options->door; parsing them fills *options. comm_help: help text of
 * `comm`, which must outlive the rows; NULL: the caller adds a row `comm` itself. */
void exchange_add_rows(struct option_rows *rows, struct exchange_options *options,
                       const char *comm_help);

/* Returns an option's name for messages of options->door. word: its name on the command line, with
 * dashes. */
const char *exchange_word(const struct exchange_options *options, const char *word);

/* Turns lossy=bf16 into wire=bf16 if a scheme is given. Fails with a message if parsed options
 * conflict. comm: value of `comm` as the user wrote it, for messages; NULL: its usual name. */
int exchange_settle(struct exchange_options *options, const char *comm);

#endif
