/* train --fake-data: a batch of made-up samples instead of data. */
#ifndef POSEIDON_COMPUTE_FAKE_DATA_H
#define POSEIDON_COMPUTE_FAKE_DATA_H

#include "net/net.h"
#include "util/strbuf.h"

struct fake_data;
struct owner;

/* Makes a batch for the tops of all layers that read data or that a program fills (Input): images
 * are bytes minus 127.5, times the layer's scale; labels are classes of the net; other single
 * values are 0 or 1. net: created with look_only (layer_env), borrowed. first_sample: global number
 * of this rank's first sample, which seeds the batch. `owner` frees the batch. */
int fake_data_create(struct owner *owner, const struct net *net, uint64_t seed,
                     uint64_t first_sample, struct fake_data **out);

/* Copies the batch into the input of the next pass; after net_build. Every pass has the same
 * batch. */
int fake_data_write(const struct fake_data *fake);

/* Appends a line for each layer with made-up data, after `title`. */
void fake_data_describe(const struct fake_data *fake, const char *title, struct strbuf *out);

#endif
