/* --split of `poseidon convert images`: draws the test set's images, and names the two files. */
#ifndef POSEIDON_CONVERT_SPLIT_H
#define POSEIDON_CONVERT_SPLIT_H

#include "input/list.h"
#include "util/rng.h"

/* Returns a part's file name: with `part` "train", "flowers.h5" becomes "flowers-train.h5" and
 * "flowers_lmdb" "flowers-train_lmdb". The caller frees the name; NULL with a message: failed. */
char *split_name(const char *path, const char *part);

/* Draws the test set: (*out)[n] is true if image n is for tests. Every class gives the fraction
 * `share` of its images, rounded, but at least one and not all. Fails for a class with a single
 * image. The caller frees *out. */
int split_draw(const struct list *list, double share, const struct rng *rng, bool **out);

#endif
