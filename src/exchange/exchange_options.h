/* The user's options of communication: one struct, one table of options and one list of conflicts,
 * for `train`, `plan` and libposeidon. No MPI. */
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

/* Texts are borrowed. */
struct exchange_options {
    enum exchange_door door;
    struct comm comm;          /* which scheme moves which layer */
    enum wire_format wire;     /* the form of gradients on the wire */
    struct ways lossy;         /* comm auto: what may be chosen beside the lossless schemes */
    enum cost_overlap overlap; /* how much communication runs under computation */
    int servers;               /* dedicated server ranks, the last ones; 0: every worker serves */
    int hierarchy; /* > 0: the workers of a machine that form a node, whose leader sends for all of
                      them; else HIERARCHY_AUTO or HIERARCHY_OFF */
    int leaders;   /* of a node, each for its share of the parameters; 0: all where one node without
                      dedicated servers is all there is, else 1 */
    int staleness; /* iterations that a worker may be ahead of the slowest */
    int drop;      /* the number of workers whose gradients no iteration waits for */
    int dilate;    /* > 1: divides the bytes on the network; of replays and of plans */
    int lowrank_warmup; /* iterations in which gradients travel whole before low rank begins; < 0:
                           10, or the solver's warm-up where that is longer */
    bool fifo;          /* messages are sent in the order of posting, not by urgency */
    bool measure;       /* comm auto: the cluster is measured and schemes are chosen anew, whatever
                           a file or a snapshot says */
    struct plan_sizes sizes;  /* but for latency; COST_SIZE_CHOSEN: as suits the network */
    double mbps;              /* cap of this rank's sends, Mbit/s; 0: none */
    enum sync_direct direct;  /* whether messages go straight from and to a device's memory */
    const char *cluster_file; /* comm auto: path of the file that keeps the cluster's figures */
    double stall_timeout;     /* seconds of silence after which a rank counts as lost; 0: never */
};

/* The default options. */
struct exchange_options exchange_options_usual(enum exchange_door door);

/* Appends the option rows of options->door; parsing them fills *options. comm_help: help text of
 * `comm`, which must outlive the rows; NULL: the caller adds a row `comm` itself. */
void exchange_add_rows(struct option_rows *rows, struct exchange_options *options,
                       const char *comm_help);

/* The name of an option in messages of options->door. word: its name on the command line, with
 * dashes. */
const char *exchange_word(const struct exchange_options *options, const char *word);

/* After parsing: with a scheme, lossy=bf16 becomes wire=bf16. Fails with a message if options
 * conflict. comm: the value of `comm` as the user wrote it, for messages; NULL: its usual name. */
int exchange_settle(struct exchange_options *options, const char *comm);

#endif
