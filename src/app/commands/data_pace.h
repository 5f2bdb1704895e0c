/* How fast a net's data come, beside how fast the net takes them: time --data. */
#ifndef POSEIDON_COMMANDS_DATA_PACE_H
#define POSEIDON_COMMANDS_DATA_PACE_H

#include "commands/model.h"
#include "util/json.h"

struct data_pace {
    double images;    /* read in a second */
    double processor; /* seconds of a core for one */
    int threads;      /* that read, at the end */
    int cores;        /* of this process */
};

/* Reads and transforms the data of a model that was opened only to be looked at, for some two
 * seconds, while nothing else is done. Fails where no layer reads any, or the source is not there.
 */
int data_pace_measure(const struct model *model, const struct model_options *options,
                      const char *engine, struct data_pace *out);

/* Beside a net that takes `net` images in a second, which is the bottleneck. */
void data_pace_print(const struct data_pace *pace, double net, struct log *log);
void data_pace_json(const struct data_pace *pace, double net, struct json *json);

#endif
