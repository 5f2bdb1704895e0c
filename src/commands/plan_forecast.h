/* What `poseidon plan` works out before it prints: costs of every layer by every scheme and
 * iterations under every mode, for each number of nodes. Needs no cluster and no data. */
#ifndef POSEIDON_COMMANDS_FORECAST_H
#define POSEIDON_COMMANDS_FORECAST_H

#include <stdio.h>

#include "commands/model.h"
#include "plan/cost.h"
#include "util/json.h"

/* What --comm may say. The first SCHEMES - 1 are schemes, in enum scheme's order. */
enum forecast_mode {
    FORECAST_PS,
    FORECAST_SFB,
    FORECAST_ALLREDUCE,
    FORECAST_ADAM,
    FORECAST_ONEBIT,
    FORECAST_PAPER, /* BestScheme */
    FORECAST_AUTO,  /* cost_choose */
    FORECAST_NONE,  /* no traffic: the ceiling */
    FORECAST_MODES
};

#define FORECAST_MAX_POINTS 32
#define FORECAST_MAX_NODES  65536

struct forecast_options {
    struct model_options model;
    int nodes[FORECAST_MAX_POINTS];
    int npoints;
    int ranks_per_node;
    bool flat;   /* every worker speaks for itself; else the workers of a node add up first
                    (sync/node.h) */
    int servers; /* dedicated ones, in all; 0: every worker serves */
    size_t chunk_bytes, merge_bytes; /* COST_SIZE_CHOSEN: what suits the network */
    int iter_size;
    const char *profile; /* measured times of the layers, or NULL */
    enum wire wire;
    double images_per_second; /* of one rank alone, forward and backward; 0: by operations */
    enum forecast_mode mode;
    enum cost_overlap overlap;
    bool all_tables;          /* a layer table for every number of nodes, not for the last alone */
    const char *cluster_file; /* where figures come from, or NULL */
};

/* One number of nodes. */
struct forecast_point {
    int nodes;
    int workers; /* in all */
    struct cost_setup setup;
    struct cost *table;  /* SCHEMES per group */
    enum scheme *chosen; /* per group, under options.mode */
    struct cost_iteration chosen_iteration;
    struct cost_iteration by_mode[FORECAST_MODES];
    struct cost_iteration by_overlap[COST_OVERLAP_FULL + 1]; /* of what is chosen */
};

struct forecast {
    const struct forecast_options *options;
    struct cost_cluster cluster;
    struct model model;
    struct cost_work work;
    int batch; /* images per rank and iteration */
    double forward_seconds, backward_seconds;
    double
        alone_seconds; /* an iteration of one rank, its update included: what speed-ups refer to */
    struct forecast_point points[FORECAST_MAX_POINTS];
};

/* "ps", "sfb", ... */
const char *forecast_mode_name(enum forecast_mode mode);
int forecast_mode_parse(const char *text, enum forecast_mode *out);

/* options are borrowed for the forecast's life. */
int forecast_create(const struct forecast_options *options, const struct cost_cluster *cluster,
                    struct forecast *out);
void forecast_free(struct forecast *forecast);

/* Images of all workers per second; how many times one rank alone. */
double forecast_images(const struct forecast *forecast, const struct forecast_point *point,
                       const struct cost_iteration *iteration);
double forecast_speedup(const struct forecast *forecast, const struct forecast_point *point,
                        const struct cost_iteration *iteration);

/* Why the group goes as it goes, without a full stop. */
void forecast_reason(const struct forecast *forecast, const struct forecast_point *point, int group,
                     char *out, size_t bytes);

int forecast_print(const struct forecast *forecast, FILE *to);
void forecast_json(const struct forecast *forecast, struct json *json);

#endif
