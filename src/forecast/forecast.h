/* How training of a net would go on a cluster that need not be there: for each number of nodes the
 * schemes that --comm would take (simulate/choose.h) and an iteration played message by message
 * (simulate/simulate.h). What `poseidon plan` prints. */
#ifndef POSEIDON_FORECAST_FORECAST_H
#define POSEIDON_FORECAST_FORECAST_H

#include "forecast/systems.h"
#include "net/net.h"
#include "exchange/schemes.h"

#define FORECAST_MAX_POINTS 32
#define FORECAST_MAX_NODES  65536
#define FORECAST_MAX_RANKS  (1 << 20)
#define FORECAST_MAX_SPEEDS 256

struct forecast_options {
    int nodes[FORECAST_MAX_POINTS];
    int npoints;
    int ranks_per_node;
    struct exchange_options exchange;   /* hierarchy: auto or off; the system settles overlap */
    double speeds[FORECAST_MAX_SPEEDS]; /* of the nodes' ranks, over that of the rank that is
                                           described below; node i has number i % nspeeds */
    int nspeeds;                        /* 0: all are alike */
    bool balance;             /* the batch is dealt by speed; else every worker has as much of it */
    int iter_size;            /* passes per iteration */
    const char *profile;      /* measured times of the layers, or NULL */
    bool products_measured;   /* the cluster's rate of products was given or measured: it stays */
    double images_per_second; /* of one rank alone, forward and backward; 0: by operations */
    const struct system *system;  /* that is played instead of training; NULL: none */
    struct simulate_options play; /* leaf_nodes, oversubscription, stragglers and seed alone are
                                     read */
    int intervals;                /* into which an iteration's bytes are divided; 0: not asked */
};

/* One number of nodes. */
struct forecast_point {
    int nodes;
    int workers;                   /* in all */
    int leaders;                   /* of a node */
    double capacity;               /* of all workers, in ranks of speed 1 */
    struct simulate_pace *pace;    /* per worker; owned; NULL: all are alike */
    int *share;                    /* likewise: images of a pass */
    int locals;                    /* workers of a node; 1: each worker sends for itself */
    int servers;                   /* dedicated ones, or all leaders */
    struct exchange_shape shape;   /* owned */
    struct cost_cluster played;    /* under bytes_per_second */
    struct plan_options how;       /* with auto's ways and sizes */
    struct way *chosen;            /* per group; owned */
    struct choose_answer answer;   /* --comm=auto's; its way is NULL where it was not asked */
    struct simulate_result result; /* of what is chosen */
    double speedup;                /* against one rank of speed 1 alone */
    double images_per_second;      /* of all workers */
    double bytes_sent, bytes_most; /* in an iteration: by a node, mean; by the busiest rank */
    double *sent; /* by a node in each of options.intervals; owned; NULL: not asked for */
    struct link_meter burst; /* then: of the busiest links; full_seconds of an iteration */
    struct cost *table;      /* per group and way (forecast_price); owned; NULL before */
};

/* What would change a point. */
struct forecast_advice {
    double enough_Bps;   /* the slowest link that is enough for 95 % of the capacity; 0: none is */
    double most_speedup; /* on the fastest link, where no link is enough */
    int server_nodes;    /* additional nodes with servers alone that make the point 5 % faster; 0:
                            no number up to the point's own does, or none was asked for */
    double servers_speedup;  /* with these nodes */
    double balanced_speedup; /* were the batch dealt by speed; 0: it is, or all are alike */
};

struct forecast {
    struct owner owner; /* of the arrays of `work` */
    const struct forecast_options *options;
    struct cost_cluster cluster;
    const struct net *net;
    const struct group *groups; /* the net's */
    struct ways ways; /* that a layer may go: what auto may choose; or the parameter server, and the
                         scheme that was named */
    struct layer_times work;
    int batch; /* images per rank and iteration */
    double forward_seconds, backward_seconds;
    double alone_seconds; /* an iteration of one rank, its update included */
    struct forecast_point points[FORECAST_MAX_POINTS];
};

/* Plays every number of nodes. options and net, which needs no buffers, are borrowed for the
 * forecast's life. */
int forecast_create(const struct forecast_options *options, const struct cost_cluster *cluster,
                    const struct net *net, struct forecast *out);
void forecast_free(struct forecast *forecast);

/* The speed-up of `nodes` nodes with `servers` dedicated servers over one rank alone. quick: of
 * auto's choice (simulate/choose.h). */
int forecast_try(const struct forecast *forecast, int nodes, int servers, bool quick,
                 double *speedup);

/* "auto", "paper", "ps", "poseidon", ...: what is played. */
const char *forecast_comm_name(const struct forecast *forecast);

/* Fills the point's table: every group by itself in every way, as it is played. */
int forecast_price(const struct forecast *forecast, struct forecast_point *point);

/* Of the table; NULL for a way that is none of forecast->ways. */
const struct cost *forecast_cost(const struct forecast *forecast,
                                 const struct forecast_point *point, int group, struct way way);

/* Why the group goes as it goes, without a full stop; by the table. */
void forecast_reason(const struct forecast *forecast, const struct forecast_point *point, int group,
                     char *out, size_t bytes);

/* "16 PS, 3 SFB": how many groups go by what; "-": nothing is sent. */
void forecast_schemes(const struct forecast *forecast, const struct forecast_point *point,
                      char *out, size_t bytes);

/* Which network or servers would be enough for the last point, and that in sentences; then what
 * lossy ways save there and cost. */
int forecast_advise(const struct forecast *forecast, struct forecast_advice *out);
void forecast_advice_words(const struct forecast *forecast, const struct forecast_advice *advice,
                           char *out, size_t bytes);

#endif
