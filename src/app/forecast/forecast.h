/* Forecasts the training of a net on a cluster that need not exist. For each number of nodes: the
 * schemes that --comm would choose (simulate/choose.h), and an iteration simulated message by
 * message (simulate/simulate.h). `poseidon plan` prints the forecast. */
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
    struct exchange_options exchange;   /* hierarchy: auto or off; `system` sets overlap */
    double speeds[FORECAST_MAX_SPEEDS]; /* speeds of nodes' ranks; the rank described below has 1.
                                           Node i has number i % nspeeds */
    int nspeeds;                        /* 0: all workers are equally fast */
    bool balance;                       /* the batch is dealt by speed; else in equal shares */
    int iter_size;                      /* passes per iteration */
    const char *profile;                /* file with measured times of the layers, or NULL */
    bool products_measured;             /* gemm_flops was given or measured, and is kept */
    double images_per_second; /* rate of one rank alone, forward and backward; 0: from operations */
    const struct system *system;  /* system to simulate instead of training; NULL: none */
    struct simulate_options play; /* simulator's options; leaf_nodes and oversubscription alone
                                     are read */
};

/* Forecast for one number of nodes. */
struct forecast_point {
    int nodes;
    int workers;                /* workers over all nodes */
    int leaders;                /* leaders per node */
    double capacity;            /* sum of the workers' speeds; a rank of speed 1 counts 1 */
    struct simulate_pace *pace; /* pace per worker; owned; NULL: equally fast workers */
    int *share;                 /* images of a pass, per worker; owned; NULL: equal shares */
    int locals;                 /* workers per node; 1: each worker sends for itself */
    int servers;                /* dedicated servers; without any, number of leaders of all nodes */
    struct exchange_shape shape; /* owned */
    struct cost_cluster played;  /* the cluster, with links of bytes_per_second */
    struct plan_options how;     /* options of the plan, with the sizes that --comm=auto chose */
    struct way *chosen;          /* way of each group; owned */
    struct choose_answer answer; /* answer of --comm=auto; answer.way is NULL with another --comm */
    struct simulate_result result; /* simulation of the chosen plan */
    double speedup;                /* speed-up over a rank of speed 1 that trains alone */
    double images_per_second;      /* rate of all workers together */
    double bytes_sent, bytes_most; /* bytes per iteration: of a node (mean); of the busiest rank */
    struct cost *table; /* cost per group and way of ways (forecast_price); owned; NULL before */
};

struct forecast {
    struct owner owner; /* owner of the arrays in `work` */
    const struct forecast_options *options;
    struct cost_cluster cluster;
    const struct net *net;
    const struct group *groups; /* the net's groups */
    struct ways ways; /* schemes that a layer may use: auto's candidates, or the parameter server
                         and a named lossy scheme */
    struct layer_times work;
    int batch; /* images per rank and iteration */
    double forward_seconds, backward_seconds;
    double alone_seconds; /* time of one rank's iteration alone, update included */
    struct forecast_point points[FORECAST_MAX_POINTS];
};

/* Simulates every number of nodes. Borrows options and net, which needs no buffers, for life. */
int forecast_create(const struct forecast_options *options, const struct cost_cluster *cluster,
                    const struct net *net, struct forecast *out);
void forecast_free(struct forecast *forecast);

/* Returns the name of the simulated --comm: "auto", "paper", "ps", "poseidon", ... */
const char *forecast_comm_name(const struct forecast *forecast);

/* Fills the point's table: the simulated cost of every group alone, with every scheme. */
int forecast_price(const struct forecast *forecast, struct forecast_point *point);

/* Writes how many groups use each scheme: "16 PS, 3 SFB"; "-": nothing is sent. */
void forecast_schemes(const struct forecast *forecast, const struct forecast_point *point,
                      char *out, size_t bytes);

/* Writes in sentences how fast the last point trains, and what lossy ways save and cost there. */
void forecast_result(const struct forecast *forecast, char *out, size_t bytes);

#endif
