/* train --fake-data: a batch of made-up samples instead of data. */
#ifndef POSEIDON_COMPUTE_FAKE_DATA_H
#define POSEIDON_COMPUTE_FAKE_DATA_H

#include "net/net.h"
#include "util/strbuf.h"

struct fake_data;
struct owner;

/* Makes a batch for the tops of all layers that read data or that a program would fill (Input).
 * Images are bytes less their middle, times the layer's scale; labels are classes that the net
 * tells apart; other single values are 0 or 1. net: created to be looked at only (layer_env),
 * borrowed. first_sample: number of this rank's first sample in the global order, which seeds the
 * sample. `owner` frees the batch. */
int fake_data_create(struct owner *owner, const struct net *net, uint64_t seed,
                     uint64_t first_sample, struct fake_data **out);

/* Makes the batch the input of the next pass. All passes get the same batch, so that making it
 * costs no training time. After net_build. */
int fake_data_write(const struct fake_data *fake);

/* Appends a line for each layer with made-up data, `title` in front. */
void fake_data_describe(const struct fake_data *fake, const char *title, struct strbuf *out);

#endif
