/* time --data: compares the pace of reading a net's data with the pace of the net. */
#ifndef POSEIDON_COMMANDS_DATA_PACE_H
#define POSEIDON_COMMANDS_DATA_PACE_H

#include "commands/model.h"
#include "util/json.h"

struct data_pace {
    double images;    /* images read per second */
    double processor; /* core seconds per image */
    int threads;      /* reading threads at the end */
    int cores;        /* cores of this process */
};

/* Reads and transforms the data of a model opened with look_only, for about two seconds, with
 * nothing else running. Fails if no layer reads data, or the source is missing. */
int data_pace_measure(const struct model *model, const struct model_options *options,
                      const char *engine, struct data_pace *out);

/* Report the pace of reading beside a net that takes `net` images a second, and the bottleneck. */
void data_pace_print(const struct data_pace *pace, double net, struct log *log);
void data_pace_json(const struct data_pace *pace, double net, struct json *json);

#endif
