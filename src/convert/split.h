/* --split of `poseidon convert images`: which images go to the test set, and what the two files are
 * called. */
#ifndef POSEIDON_CONVERT_SPLIT_H
#define POSEIDON_CONVERT_SPLIT_H

#include "input/list.h"
#include "util/rng.h"

/* "flowers.h5" with `part` "train" is "flowers-train.h5", "flowers_lmdb" "flowers-train_lmdb".
 * Memory that the caller frees, or NULL with a message. */
char *split_name(const char *path, const char *part);

/* (*out)[n]: image n is for tests. Of every class it is `share` of the images, rounded, but at
 * least one and not all; which, is drawn. Errors: a class with a single image. *out is owned by the
 * caller. */
int split_draw(const struct list *list, double share, const struct rng *rng, bool **out);

#endif
