/* Writes Caffe's binary models and states field by field, so that a net's weights exist in memory
 * once. The one trick: in protobuf a length stands before the bytes that it measures, so lengths
 * are summed up first. */
#include "snapshot/snapshot_internal.h"

#include "spec/caffe.pb-c.h"
#include "spec/proto.h"
#include "util/alloc.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

/* Field numbers of Caffe's messages. */
enum { BLOB_DATA = 5, BLOB_SHAPE = 7, SHAPE_DIM = 1 };
enum { NET_NAME = 1, NET_LAYER = 100, LAYER_BLOBS = 7 };

static void put_varint(struct snapshot_output *to, uint64_t value)
{
    unsigned char bytes[10] = {0};
    size_t count = proto_put_varint(bytes, value);

    snapshot_put(to, bytes, count);
}

static void put_number(struct snapshot_output *to, uint32_t field, uint64_t value)
{
    put_varint(to, (uint64_t)field << 3 | PROTO_VARINT);
    put_varint(to, value);
}

static void put_head(struct snapshot_output *to, uint32_t field, uint64_t bytes)
{
    put_varint(to, (uint64_t)field << 3 | PROTO_BYTES);
    put_varint(to, bytes);
}

static void put_string_field(struct snapshot_output *to, uint32_t field, const char *text)
{
    put_head(to, field, strlen(text));
    snapshot_put(to, text, strlen(text));
}

static void put_text(struct snapshot_output *to, uint32_t field, const char *text)
{
    if (text != NULL && text[0] != '\0')
        put_string_field(to, field, text);
}

/* Returns the bytes of a field whose content has `bytes` bytes, tag and length included. */
static uint64_t whole(uint32_t field, uint64_t bytes)
{
    return proto_varint_bytes((uint64_t)field << 3) + proto_varint_bytes(bytes) + bytes;
}

static uint64_t dims_bytes(const struct shape *shape)
{
    uint64_t bytes = 0;

    for (int i = 0; i < shape->naxes; i++)
        bytes += proto_varint_bytes((uint64_t)shape->dim[i]);
    return bytes;
}

/* Returns the bytes of a BlobShape; protobuf omits an empty list of dims. */
static uint64_t shape_bytes(const struct shape *shape)
{
    return shape->naxes > 0 ? whole(SHAPE_DIM, dims_bytes(shape)) : 0;
}

static uint64_t blob_bytes(const struct snapshot_blob *blob)
{
    uint64_t bytes = whole(BLOB_SHAPE, shape_bytes(blob->shape));

    if (shape_elems(blob->shape) > 0)
        bytes += whole(BLOB_DATA, shape_elems(blob->shape) * sizeof(float));
    return bytes;
}

static void put_blob(struct snapshot_output *to, uint32_t field, const struct snapshot_blob *blob)
{
    size_t elems = shape_elems(blob->shape);

    put_head(to, field, blob_bytes(blob));
    if (elems > 0) {
        put_head(to, BLOB_DATA, elems * sizeof(float));
        snapshot_put_floats(to, blob->data, elems);
    }
    put_head(to, BLOB_SHAPE, shape_bytes(blob->shape));
    if (blob->shape->naxes > 0) {
        put_head(to, SHAPE_DIM, dims_bytes(blob->shape));
        for (int i = 0; i < blob->shape->naxes; i++)
            put_varint(to, (uint64_t)blob->shape->dim[i]);
    }
}

/* Gives a BatchNorm without ParamSpecs three with lr_mult and decay_mult 0, as Caffe's layer and
 * reader do: statistics do not learn. */
static void add_frozen_params(Caffe__LayerParameter *param)
{
    static const Caffe__ParamSpec frozen = {
        .base = PROTOBUF_C_MESSAGE_INIT(&caffe__param_spec__descriptor),
        .has_lr_mult = 1,
        .has_decay_mult = 1};
    static const Caffe__ParamSpec *const three[] = {&frozen, &frozen, &frozen};

    if (param->n_param > 0 || !param->type || strcmp(param->type, "BatchNorm") != 0)
        return;
    param->n_param = 3;
    param->param = (Caffe__ParamSpec **)(uintptr_t)three;
}

/* Returns the layer's definition as Caffe saves it: after splits, with its phase, a loss with its
 * loss weight, without blobs. A layer that came from a model, not from a net's file, stays as
 * saved. Borrows everything. */
static Caffe__LayerParameter describe_layer(const struct layer_def *def)
{
    Caffe__LayerParameter param = *def->param;

    param.n_bottom = (size_t)def->nbottoms;
    param.bottom = def->bottoms;
    param.n_top = (size_t)def->ntops;
    param.top = def->tops;
    if (param.n_loss_weight > 0 && def->nweights >= def->ntops) {
        param.n_loss_weight = (size_t)def->ntops;
        param.loss_weight = def->loss_weights;
    } else if (!def->inserted && def->nweights > 0 && def->loss_weights[0] != 0) {
        param.n_loss_weight = 1; /* implied loss weight of a type that ends in "Loss" */
        param.loss_weight = def->loss_weights;
    }
    add_frozen_params(&param);
    if (def->file != NULL) {
        param.has_phase = 1;
        param.phase = CAFFE__PHASE__TRAIN;
    }
    param.n_blobs = 0;
    param.blobs = NULL;
    return param;
}

static int put_model_layer(struct snapshot_output *to, const struct layer_def *def,
                           const struct snapshot_layer *layer)
{
    Caffe__LayerParameter param;
    uint64_t bytes, weights = 0;
    uint8_t *packed;
    size_t length;

    if (def != NULL) {
        param = describe_layer(def);
    } else {
        caffe__layer_parameter__init(&param);
        param.name = (char *)(uintptr_t)layer->name;
    }
    length = caffe__layer_parameter__get_packed_size(&param);
    if (ALLOC(packed, length, "a layer's definition"))
        return -1;
    caffe__layer_parameter__pack(&param, packed);
    for (int i = 0; i < layer->nblobs; i++)
        weights += whole(LAYER_BLOBS, blob_bytes(&layer->blobs[i]));
    bytes = length + weights;
    put_head(to, NET_LAYER, bytes);
    snapshot_put(to, packed, length);
    for (int i = 0; i < layer->nblobs; i++)
        put_blob(to, LAYER_BLOBS, &layer->blobs[i]);
    free(packed);
    return 0;
}

/* Ends the file with its checksum. */
static int finish_file(struct snapshot_output *to, int status, const char *what)
{
    const uint32_t seal = htole32(to->sum);

    if (status == 0) {
        put_head(to, PROTO_SEAL, sizeof seal);
        snapshot_put(to, &seal, sizeof seal);
    }
    return snapshot_output_close(to, status, what);
}

int snapshot_write_model_binary(const char *path, const struct snapshot_owner *owner,
                                const struct net_def *def, const struct snapshot_layer *layers,
                                int nlayers)
{
    struct snapshot_output to;
    int status;

    if (snapshot_check_names(path, layers, nlayers))
        return error_context("the model cannot be saved");
    status = snapshot_output_open(path, &to);
    if (status == 0 && def != NULL && def->name[0] != '\0')
        put_string_field(&to, NET_NAME, def->name);
    for (int i = 0; i < nlayers && status == 0; i++)
        status = put_model_layer(&to, def != NULL ? &def->layers[i] : NULL, &layers[i]);
    for (int i = 0; i < SNAPSHOT_MODEL_TEXTS && status == 0; i++)
        put_text(&to, snapshot_texts[i].field, snapshot_text_of(owner, i));
    return finish_file(&to, status, "model");
}

int snapshot_write_state_binary(const char *path, const struct snapshot_state *state,
                                const struct snapshot_blob *history, int nhistory)
{
    struct snapshot_output to;
    int status = snapshot_output_open(path, &to);

    if (status == 0) {
        put_number(&to, STATE_ITER, (uint64_t)state->iter);
        put_string_field(&to, STATE_NET, state->learned_net);
        for (int i = 0; i < nhistory; i++)
            put_blob(&to, STATE_HISTORY, &history[i]);
        put_number(&to, STATE_STEP, (uint64_t)state->current_step);
        if (state->has_data_cursor)
            put_number(&to, STATE_CURSOR, state->data_cursor);
        for (int i = 0; i < SNAPSHOT_TEXTS; i++)
            if (snapshot_texts[i].of_state)
                put_text(&to, snapshot_texts[i].field, snapshot_text_of(&state->owner, i));
        if (state->owner.global_batch > 0)
            put_number(&to, STATE_BATCH, (uint64_t)state->owner.global_batch);
    }
    return finish_file(&to, status, "solver state");
}
