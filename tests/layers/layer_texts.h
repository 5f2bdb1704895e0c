/* Texts of single layers, for tests of layers: layer 'l' of bottom 'x' (and 'z') and top 'y'. */
#ifndef POSEIDON_TESTS_LAYERS_LAYER_TEXTS_H
#define POSEIDON_TESTS_LAYERS_LAYER_TEXTS_H

#include "tests/net/test_net_common.h"

#define CONV(param)                                                                                \
    "layer { name: 'l' type: 'Convolution' bottom: 'x' top: 'y' convolution_param { " param " } }"
#define POOL(param)                                                                                \
    "layer { name: 'l' type: 'Pooling' bottom: 'x' top: 'y' pooling_param { " param " } }"
#define IP(param)                                                                                  \
    "layer { name: 'l' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param { " param     \
    " } }"
#define ONE(type, rest) "layer { name: 'l' type: '" type "' bottom: 'x' top: 'y' " rest " }"
#define TWO(type, rest)                                                                            \
    "layer { name: 'l' type: '" type "' bottom: 'x' bottom: 'z' top: 'y' " rest " }"
/* Upsample behind the pooling of 'x' by 2 x 2. */
#define POOLED                                                                                     \
    "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' top: 'm' pooling_param { "             \
    "kernel_size: 2 stride: 2 } }"
#define UPSAMPLE(param)                                                                            \
    POOLED "layer { name: 'l' type: 'Upsample' bottom: 'p' bottom: 'm' top: 'y' upsample_param "   \
           "{ " param " } }"
#define X INPUT("x", "2,4,6,5")
#define Z INPUT("z", "2,4,6,5")

#endif
