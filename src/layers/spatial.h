/* What a file says of the windows of convolution and pooling, by Caffe's rule: once for all spatial
 * axes, or once for each; of height and width also by name. */
#ifndef POSEIDON_LAYERS_SPATIAL_H
#define POSEIDON_LAYERS_SPATIAL_H

#include "spec/caffe.pb-c.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum spatial_kind { SPATIAL_KERNEL, SPATIAL_STRIDE, SPATIAL_PAD, SPATIAL_DILATION };

/* Borrows from the parameter that it is of. */
struct spatial_field {
    const char *name, *name_h, *name_w; /* "kernel_size", "kernel_h", "kernel_w" */
    size_t n;                           /* values of `name` */
    const uint32_t *value;
    bool has_h, has_w;
    uint32_t h, w;
    int absent; /* what an absent field means; -1: it must be there */
    int least;  /* smallest allowed value */
};

/* Of a convolution's or a pooling's message. */
struct spatial_field spatial_of(const ProtobufCMessage *p, enum spatial_kind kind);

/* The value for spatial axis i, unchecked; of height and width by name, those are axes 0 and 1. */
int64_t spatial_at(const struct spatial_field *field, int i);

#endif
