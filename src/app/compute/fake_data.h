/* train --fake-data: a batch of made-up samples in the place of what data layers would read. */
#ifndef POSEIDON_COMPUTE_FAKE_DATA_H
#define POSEIDON_COMPUTE_FAKE_DATA_H

#include "net/net.h"
#include "util/strbuf.h"

struct fake_data;
struct owner;

/* For the tops of all layers that read data or that a program would fill (Input): images are bytes
 * less their middle, times the layer's scale; labels are classes that the net tells apart; other
 * single values are 0 or 1. net: created to be looked at only (layer_env), borrowed. first_sample:
 * this rank's first of the global order, by which samples are drawn. Freed with what
 * the owner has. */
int fake_data_create(struct owner *owner, const struct net *net, uint64_t seed,
                     uint64_t first_sample, struct fake_data **out);

/* The batch becomes the input of the next pass: each is given the same one, so that making it costs
 * no time of the training. After net_build. */
int fake_data_write(const struct fake_data *fake);

/* Appends a line for each layer, `title` in front. */
void fake_data_describe(const struct fake_data *fake, const char *title, struct strbuf *out);

#endif
