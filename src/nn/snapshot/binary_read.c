/* Reads Caffe's binary models and states. */
#include "snapshot/snapshot_internal.h"

#include "spec/modelfile.h"
#include "spec/read.h"
#include "spec/stored_blob.h"
#include "spec/upgrade.h"
#include "util/error.h"
#include "util/file_kind.h"

#include <stdlib.h>

/* ---- models ---- */

static int read_blob(void *context, int layer, int blob, float *out)
{
    int nlayers;

    return model_file_read(context, &model_file_layers(context, &nlayers)[layer].blobs[blob], out);
}

static int read_net(void *context, struct text_doc **out)
{
    if (model_file_net(context, out))
        return -1;
    if (upgrade_net(spec_net(*out), *out) == 0)
        return 0;
    text_free(*out);
    return -1;
}

static void close_model(void *context)
{
    model_file_close(context);
}

int snapshot_open_binary(const char *path, struct snapshot_source *out)
{
    struct model_file *file;

    if (model_file_open(path, &file))
        return -1;
    out->context = file;
    out->layers = model_file_layers(file, &out->nlayers);
    out->read = read_blob;
    out->net = read_net;
    out->close = close_model;
    for (int i = 0; i < SNAPSHOT_MODEL_TEXTS; i++)
        if (snapshot_copy_text(model_file_text(file, snapshot_texts[i].field),
                               snapshot_text_in(&out->owner, i)))
            return -1;
    return 0;
}

/* ---- states ---- */

enum { HISTORY_MOST = 200000, TEXT_MOST = 65536, PLAN_MOST = 1 << 20 };

/* A state being read. Its history is read like the blobs of one layer. */
struct reader {
    struct proto *proto;
    struct snapshot_state *state;
    struct stored_layer history;
};

static int read_history(void *context, int layer, int blob, float *out)
{
    struct reader *r = context;

    (void)layer;
    return stored_blob_read(r->proto, &r->history.blobs[blob], out);
}

static int take_history(struct reader *r, const struct proto_field *field)
{
    struct stored_blob *blob;

    if (r->history.nblobs == HISTORY_MOST)
        return error_set("%s: more than %d blobs", proto_path(r->proto), HISTORY_MOST);
    blob = stored_layer_add(&r->history);
    return blob ? stored_blob_scan(r->proto, field->begin, field->begin + field->length, blob) : -1;
}

static int take_text(struct reader *r, const struct proto_field *field)
{
    size_t most = field->number == STATE_PLAN ? PLAN_MOST : TEXT_MOST;

    if (field->number == STATE_HISTORY)
        return take_history(r, field);
    if (field->number == STATE_NET)
        return proto_take_text(r->proto, field, most, &r->state->learned_net)
                   ? error_context("learned_net")
                   : 0;
    for (int i = 0; i < SNAPSHOT_TEXTS; i++)
        if (snapshot_texts[i].of_state && snapshot_texts[i].field == field->number)
            return proto_take_text(r->proto, field, most, snapshot_text_in(&r->state->owner, i));
    return 0;
}

static int take_field(struct reader *r, const struct proto_field *field)
{
    struct snapshot_state *state = r->state;

    if (field->type == PROTO_BYTES)
        return take_text(r, field);
    if (field->type != PROTO_VARINT)
        return 0;
    if (field->number == STATE_ITER)
        state->iter = (int32_t)field->value;
    else if (field->number == STATE_STEP)
        state->current_step = (int32_t)field->value;
    else if (field->number == STATE_BATCH)
        state->owner.global_batch = (int64_t)field->value;
    else if (field->number == STATE_CURSOR) {
        state->has_data_cursor = true;
        state->data_cursor = field->value;
    }
    return 0;
}

/* Checks that a file begins with an iteration, as states do: models have a name or layer first. */
static int check_kind(struct proto *proto)
{
    static const char state[] = "a solver state (.solverstate)";
    const char *path = proto_path(proto);
    struct proto_field first, second;
    uint64_t at = 0, end = proto_bytes(proto);

    if (proto_is_text(proto)) {
        error_set("%s: expected %s, found a text", path, state);
        return file_kind_error(path, state);
    }
    if (proto_next(proto, &at, end, &first))
        return file_kind_error(path, state);
    if (first.type == PROTO_BYTES &&
        (first.number == 1 || first.number == 2 || first.number == 100))
        return error_set("%s is a model, not a solver state: give it to --weights, or give the "
                         ".solverstate that belongs to it",
                         path);
    if (first.number != STATE_ITER || first.type != PROTO_VARINT ||
        (at < end && (proto_next(proto, &at, end, &second) || second.type != PROTO_BYTES))) {
        error_set("%s: expected %s, found something else", path, state);
        return file_kind_error(path, state);
    }
    return 0;
}

static int read_state(struct reader *r)
{
    struct snapshot_state *state = r->state;
    uint64_t at = 0, end = proto_bytes(r->proto);
    struct proto_field field;

    if (check_kind(r->proto))
        return -1;
    while (at < end)
        if (proto_next(r->proto, &at, end, &field) || proto_check_field(r->proto, &field) ||
            take_field(r, &field))
            return -1;
    if (proto_check_end(r->proto))
        return -1;
    if (state->iter < 0 || state->current_step < 0)
        return error_set("%s: iter is %d and current_step %d; expected 0 or more",
                         proto_path(r->proto), state->iter, state->current_step);
    return state->learned_net ? 0 : snapshot_copy_text("", &state->learned_net);
}

int snapshot_read_state_binary(const char *path, struct snapshot_state *state,
                               const struct snapshot_blob *history, int nhistory)
{
    struct reader r = {.state = state};
    struct snapshot_source source = {
        .path = path, .context = &r, .layers = &r.history, .nlayers = 1, .read = read_history};
    int status;

    if (proto_open(path, &r.proto))
        return -1;
    status =
        error_status(read_state(&r) || (nhistory != SNAPSHOT_PEEK &&
                                        snapshot_load_history(&source, (uint64_t)r.history.nblobs,
                                                              history, nhistory)));
    free(r.history.blobs);
    proto_close(r.proto);
    return status;
}
