/* What the layers that read samples share: the state around a source and its feeder. */
#ifndef POSEIDON_LAYERS_DATA_INTERNAL_H
#define POSEIDON_LAYERS_DATA_INTERNAL_H

#include "layers/layers_internal.h"

#include "input/class_names.h"
#include "input/feeder.h"

struct data {
    struct engine *engine;      /* borrowed; NULL before build */
    struct source *source;      /* owned until build, then the feeder's */
    struct transform transform; /* owned until build, then the feeder's */
    bool transforms;            /* `transform` applies to field 0 */
    struct shape record;        /* of images, C,H,W; naxes 0: not known */
    char *path;                 /* of the source, owned; NULL: it is not there */
    struct class_names classes; /* of the source, or of a list's folders; owned */
    struct feeder_options options;
    uint64_t ranks_per_sample; /* shared_file_system: false: each rank has a source of its own, so
                                  one place in the global order is this many times one of its own */
    uint64_t skip;             /* rand_skip: samples that the order begins behind its first */
    struct engine_images *images; /* the engine makes values of bytes; NULL: the feeder does */
};

/* Makes layer->state; NULL with a message. The batch's size is the command line's, else that of the
 * definition, where there must be one. rand_skip: the most samples of the order that are left out
 * at its beginning; how many is drawn, alike on all ranks. */
struct data *data_make_state(struct layer *layer, const struct layer_env *env, bool has_batch,
                             uint32_t batch_size, uint32_t rand_skip);

/* The source's path, as path_find finds it. The first Poseidon's shared_file_system, where it is
 * given and false, means a source of its own for every rank: SOURCE_0, SOURCE_1, ... */
char *data_source(struct data *state, const char *source, bool own, const struct layer_env *env);

/* force_color and force_gray of transform_param; fails where both are given. */
int data_forced_color(const struct layer *layer, enum image_color *out);

/* What data_look needs to know of a kind of layer. */
struct data_look {
    const char *source; /* as the definition has it; NULL or "": none */
    bool own;           /* every rank has a source of its own */
    /* Opens the source as state->source. */
    int (*open)(struct layer *layer, struct data *state, const struct layer_env *env);
    int64_t known[3];   /* C,H,W where the definition says, 0 where it does not */
    struct shape label; /* of one sample: a number, unless the definition says otherwise */
    bool values;        /* of any shape, no images: what the source has is fed as it is */
    const char *mixes;  /* how samples get a random order, for a warning */
};

/* After data_make_state: opens the source and sets the tops' shapes, of images as the transform
 * makes them. If no batch is read, shapes come from the user; else from the source, which is opened
 * and closed again; else, if the source is missing, from the definition. Sizes that the definition
 * lacks are assumed: layer->assumed is set, with a notice. */
int data_set_up(struct layer *layer, const struct layer_env *env, const struct data_look *look);

/* The slots of struct layer_i. */
int data_build(struct layer *layer, struct engine *engine);
int data_forward(struct layer *layer, const struct pass *pass);
int data_mark(const struct layer *layer, struct layer_data_mark *out);
int data_look_at(const struct layer *layer, double seconds, struct source_survey *out);
int data_seek(struct layer *layer, uint64_t first_sample);
void data_destroy(struct layer *layer);

/* Those of every layer of this kind. */
#define DATA_LAYER_SLOTS                                                                           \
    .is_data = true, .transforms = true, .build = data_build, .forward = data_forward,             \
    .destroy = data_destroy, .mark = data_mark, .look = data_look_at, .seek = data_seek

#endif
