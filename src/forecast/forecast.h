/* What `poseidon plan` works out of a net before it prints: costs of every layer by every scheme
 * and iterations under every mode, for each number of nodes. Needs no cluster and no data. */
#ifndef POSEIDON_FORECAST_FORECAST_H
#define POSEIDON_FORECAST_FORECAST_H

#include "net/net.h"
#include "simulate/choose.h"

#define FORECAST_MAX_POINTS 32
#define FORECAST_MAX_NODES  65536
#define FORECAST_MAX_RANKS  (1 << 20)

/* The registry's schemes, then the policies paper, auto and none: what --comm could be. */
#define FORECAST_MAX_COMMS 32

struct forecast_options {
    int nodes[FORECAST_MAX_POINTS];
    int npoints;
    int ranks_per_node;
    int leaders; /* of a node; 0: all of an only one that adds up, else 1 */
    bool flat;   /* every worker is its own leader; else the workers of a node add up first */
    int servers; /* dedicated ones, in all; 0: every worker serves */
    size_t chunk_bytes, merge_bytes; /* COST_SIZE_CHOSEN: what suits the network */
    int iter_size;
    int dilate;          /* as struct plan_options */
    const char *profile; /* measured times of the layers, or NULL */
    enum wire_format wire;
    bool products_measured;   /* the cluster's rate of products was given or measured: it stays */
    double images_per_second; /* of one rank alone, forward and backward; 0: by operations */
    struct comm comm;
    const struct scheme *const *registry; /* what there is to choose from; borrowed */
    enum cost_overlap overlap;
    double bytes_per_second;             /* most that a rank sends; 0: no limit */
    const struct simulate_options *play; /* how candidates are played (struct choose_question);
                                            NULL: as in training */
    bool all_tables;          /* a layer table for every number of nodes, not for the last alone */
    const char *cluster_file; /* where figures come from, or NULL */
};

/* One number of nodes. */
struct forecast_point {
    int nodes;
    int workers; /* in all */
    int leaders; /* of a node */
    int locals;  /* workers that one leader sends for; 1: every one for itself */
    bool shares; /* the only node, which adds up under options.comm */
    bool asks;   /* auto is a choice here (choose_is_asked) and not the paper's rule */
    struct cost_cluster cluster;  /* under options.bytes_per_second */
    int servers;                  /* dedicated ones, or all leaders */
    int *node_of;                 /* per worker, where nodes add up first, be it under --comm=auto
                                     alone; owned; else NULL */
    struct plan_options how;      /* all but the schemes and the nodes, which depend on --comm */
    struct cost *table;           /* per group and scheme (cost_table) */
    const struct scheme **chosen; /* per group, under options.comm */
    struct choose_answer answer;  /* --comm=auto's; its scheme is NULL until it was asked for */
    size_t merge_bytes;           /* as chosen */
    size_t window;                /* the same under --comm=auto; else COST_SIZE_CHOSEN */
    int buckets, chunks;
    uint64_t messages; /* of the rank that sends most */
    uint64_t memory;   /* of the rank that keeps most for communication */
    struct cost_iteration chosen_iteration;
    struct cost_iteration by_comm[FORECAST_MAX_COMMS];
    struct cost_iteration by_overlap[COST_OVERLAPS]; /* of what is chosen */
};

/* What a point comes to, and what would change it. */
struct forecast_advice {
    double speedup;         /* under options.comm */
    double enough_Bps;      /* a link so fast is enough for 95 % of the workers; 0: none is */
    double most_speedup;    /* on the fastest link */
    int server_nodes;       /* so many more nodes, with servers alone, make it 5 % faster; 0: up to
                               as many as there are do not, or were not asked for */
    double servers_speedup; /* with them */
};

struct forecast {
    const struct forecast_options *options;
    struct cost_cluster cluster;
    const struct net *net;
    struct group *groups; /* the net's; owned */
    int nschemes, ncomms;
    struct comm comms[FORECAST_MAX_COMMS];
    struct cost_work work;
    int batch; /* images per rank and iteration */
    double forward_seconds, backward_seconds;
    double
        alone_seconds; /* an iteration of one rank, its update included: what speed-ups refer to */
    struct forecast_point points[FORECAST_MAX_POINTS];
    struct forecast_advice advice; /* on the last point; by forecast_create */
};

/* options and net, which needs no buffers, are borrowed for the forecast's life. */
int forecast_create(const struct forecast_options *options, const struct cost_cluster *cluster,
                    const struct net *net, struct forecast *out);
void forecast_free(struct forecast *forecast);

/* The same in steps, for who wants no more than plans: the net's groups, its work and the rank
 * alone; how a number of nodes is set up; the plan by options.comm, to be destroyed. */
int forecast_open(const struct forecast_options *options, const struct cost_cluster *cluster,
                  const struct net *net, struct forecast *out);
int forecast_set_up(const struct forecast *forecast, int nodes, struct forecast_point *point);
int forecast_plan(const struct forecast *forecast, struct forecast_point *point, struct plan **out);

/* Images of all workers per second; how many times one rank alone. */
double forecast_images(const struct forecast *forecast, const struct forecast_point *point,
                       const struct cost_iteration *iteration);
double forecast_speedup(const struct forecast *forecast, const struct forecast_point *point,
                        const struct cost_iteration *iteration);

/* How many times one rank alone that many nodes are, under options.comm. */
int forecast_try(const struct forecast *forecast, int nodes, double *speedup);

/* Of one of the forecast's points. */
int forecast_advise(const struct forecast *forecast, const struct forecast_point *point,
                    struct forecast_advice *out);

/* The same in sentences. */
void forecast_advice_words(const struct forecast *forecast, const struct forecast_point *point,
                           const struct forecast_advice *advice, char *out, size_t bytes);

/* The group by itself by that scheme of the registry; NULL for no scheme. */
const struct cost *forecast_cost(const struct forecast *forecast,
                                 const struct forecast_point *point, int group,
                                 const struct scheme *scheme);

/* Why the group goes as it goes, without a full stop. */
void forecast_reason(const struct forecast *forecast, const struct forecast_point *point, int group,
                     char *out, size_t bytes);

#endif
