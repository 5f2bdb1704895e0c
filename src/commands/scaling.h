/* How much faster each layer is with more threads: time --threads=LIST. */
#ifndef POSEIDON_COMMANDS_SCALING_H
#define POSEIDON_COMMANDS_SCALING_H

#include "commands/options_rows.h"
#include "net/net.h"
#include "util/json.h"
#include "util/log.h"

/* The seconds of a pass with one number of threads, of all layers and of each; both owned. */
struct scaling_times {
    int threads;
    double *forward, *backward, total;
};

struct scaling {
    int n; /* 0: nothing is compared */
    struct scaling_times times[THREAD_COUNTS];
};

void scaling_free(struct scaling *scaling);

/* Every layer's time with the first number of threads and how many times as fast it is with the
 * others, and the layers that keep the last number from being as fast as it could be. */
void scaling_print(const struct scaling *scaling, const struct net *net, struct log *log);

/* "threads": an array of the numbers, of all layers (layer -1) or of one. */
void scaling_json(const struct scaling *scaling, int layer, struct json *json);

#endif
