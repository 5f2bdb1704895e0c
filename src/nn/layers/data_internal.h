/* State shared by the layers that read samples: the source and its feeder. */
#ifndef POSEIDON_LAYERS_DATA_INTERNAL_H
#define POSEIDON_LAYERS_DATA_INTERNAL_H

#include "layers/layers_internal.h"

#include "input/class_names.h"
#include "input/feeder.h"

struct data {
    struct engine *engine;                /* borrowed; NULL before build */
    struct source *source;                /* owned until build, then the feeder's */
    Caffe__TransformationParameter param; /* transform_param, with the layer's own crop and mirror;
                                             borrows from the definition */
    struct transform_planes planes;       /* used if data_look.planes */
    struct transform transform;           /* owned until build, then the feeder's */
    bool transforms;                      /* `transform` applies to field 0 */
    struct shape record;                  /* shape of an image, C,H,W; naxes 0: not known */
    char *path;                           /* the source's path, owned; NULL: no source exists */
    struct class_names classes; /* class names of the source or of a list's folders; owned */
    struct feeder_options options;
    uint64_t ranks_per_sample; /* nranks if each rank has its own source, else 1: place g of the
                                  global order is place g / this of the rank's source */
    uint64_t skip;             /* rand_skip: samples that the order leaves out at its beginning */
    struct engine_images *images; /* the engine's conversion of bytes; NULL: the feeder converts */
};

/* Allocates layer->state and returns it; NULL with a message. The batch size is the command line's,
 * else the definition's, which is then required. rand_skip: upper limit of a random number of
 * samples, the same on all ranks, that the order leaves out at its beginning. */
struct data *data_make_state(struct layer *layer, const struct layer_env *env, bool has_batch,
                             uint32_t batch_size, uint32_t rand_skip);

/* Returns the source's path, as path_find finds it; the caller frees it. own: every rank has a
 * source of its own (shared_file_system: false): SOURCE_0, SOURCE_1, ... */
char *data_source(struct data *state, const char *source, bool own, const struct layer_env *env);

/* Reads force_color and force_gray of transform_param; fails if both are set. */
int data_forced_color(const struct layer *layer, enum image_color *out);

/* Properties of a layer type, for data_set_up. */
struct data_look {
    const char *source; /* the definition's value; NULL or "": none */
    bool own;           /* every rank has a source of its own */
    /* Opens the source as state->source. */
    int (*open)(struct layer *layer, struct data *state, const struct layer_env *env);
    int64_t known[3];   /* C,H,W from the definition; 0: not given */
    struct shape label; /* shape of one sample's label; by default a scalar */
    bool planes; /* labels are planes of the size of images; state->planes says how they are padded
                  */
    bool values; /* the source holds values of any shape, not images; they are fed unchanged */
    const char *mixes; /* how a user gets a random order, for a warning */
};

/* After data_make_state: opens the source and sets the tops' shapes; images have the transform's
 * size. With look_only, shapes come from the user, else from an existing source (closed again),
 * else from the definition. Sizes missing there are assumed: sets layer->assumed, with a notice. */
int data_set_up(struct layer *layer, const struct layer_env *env, const struct data_look *look);

/* Functions for the slots of struct layer_i. */
int data_build(struct layer *layer, struct engine *engine);
int data_forward(struct layer *layer, const struct pass *pass);
int data_mark(const struct layer *layer, struct layer_data_mark *out);
int data_look_at(const struct layer *layer, double seconds, struct source_survey *out);
int data_seek(struct layer *layer, uint64_t first_sample);
void data_destroy(struct layer *layer);

/* Slots that all layers with a source share. */
#define DATA_LAYER_SLOTS                                                                           \
    .is_data = true, .transforms = true, .build = data_build, .forward = data_forward,             \
    .destroy = data_destroy, .mark = data_mark, .look = data_look_at, .seek = data_seek

#endif
