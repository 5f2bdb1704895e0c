/* A net as a picture: layers are boxes with their parameters and the blobs that they make. Splits
 * that are not in the file are left out; a layer that works in place is part of the box whose blob
 * it changes; blocks that repeat are drawn once, and a long net stands in columns. */
#ifndef POSEIDON_EXPORT_PICTURE_H
#define POSEIDON_EXPORT_PICTURE_H

#include "net/net.h"
#include "plan/scheme.h"

/* How each of the net's groups of parameters travels, between so many nodes. */
struct picture_plan {
    const struct way *chosen; /* per group. Borrowed */
    int nodes;
};

/* Whether `path` ends as text in Graphviz's language does, or as a picture that Graphviz's library
 * draws and this build has that library; else fails and says what to do. */
int picture_check(const char *path);

/* Writes `file`, of the kind that its ending names. net: for shapes and parameters; NULL
 * where they could not be told. plan: of that net, or NULL. */
int picture_write(const struct net_def *def, const struct net *net, const struct picture_plan *plan,
                  const char *file);

#endif
