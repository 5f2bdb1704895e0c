/* Caffe's binary solver states (.solverstate). */
#include "spec/modelfile.h"

#include "spec/stored_blob.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY_MOST 200000
#define PATH_MOST    65536

/* Numbers of the fields; the last two are ours, far above Caffe's. */
enum { ITER = 1, LEARNED_NET, HISTORY, CURRENT_STEP, DATA_CURSOR = 1000, RANDOM_SEED };

struct state_file {
    struct proto *proto;
    struct stored_state state;
    struct stored_blob *history; /* what state.history shows */
    int room;
    char *learned_net;
};

static int add_history(struct state_file *file, const struct proto_field *field)
{
    struct stored_state *state = &file->state;

    if (state->nhistory == HISTORY_MOST)
        return error_set("%s: more than %d blobs", proto_path(file->proto), HISTORY_MOST);
    if (state->nhistory == file->room) {
        int room = file->room > 0 ? 2 * file->room : 64;
        struct stored_blob *grown = realloc(file->history, (size_t)room * sizeof *grown);

        if (grown == NULL)
            return error_memory((size_t)room * sizeof *grown, "the history of a solver");
        file->history = grown;
        file->room = room;
    }
    if (stored_blob_scan(file->proto, field->begin, field->begin + field->length,
                         &file->history[state->nhistory]))
        return -1;
    state->nhistory++;
    return 0;
}

static int set_learned_net(struct state_file *file, const struct proto_field *field)
{
    if (field->length > PATH_MOST)
        return error_set("%s: learned_net has %" PRIu64 " bytes, expected a path",
                         proto_path(file->proto), field->length);
    free(file->learned_net);
    file->learned_net = calloc(1, (size_t)field->length + 1);
    if (file->learned_net == NULL)
        return error_memory((size_t)field->length + 1, "a path");
    return proto_copy(file->proto, field->begin, file->learned_net, (size_t)field->length);
}

static int take_field(struct state_file *file, const struct proto_field *field)
{
    struct stored_state *state = &file->state;

    if (proto_is_seal(file->proto, field))
        return proto_check_seal(file->proto, field);
    if (field->type == PROTO_BYTES && field->number == HISTORY)
        return add_history(file, field);
    if (field->type == PROTO_BYTES && field->number == LEARNED_NET)
        return set_learned_net(file, field);
    if (field->type != PROTO_VARINT)
        return 0;
    switch (field->number) {
    case ITER:
        state->iter = (int32_t)field->value;
        break;
    case CURRENT_STEP:
        state->current_step = (int32_t)field->value;
        break;
    case DATA_CURSOR:
        state->has_data_cursor = true;
        state->data_cursor = field->value;
        break;
    case RANDOM_SEED:
        state->has_random_seed = true;
        state->random_seed = (int64_t)field->value;
        break;
    default:
        break;
    }
    return 0;
}

/* A model begins with its name or a layer, a state with its iteration. */
static int check_kind(struct state_file *file)
{
    const char *path = proto_path(file->proto);
    struct proto_field first, second;
    uint64_t at = 0, end = proto_bytes(file->proto);

    if (end == 0)
        return error_set("%s: expected a solver state, found an empty file", path);
    if (proto_is_text(file->proto))
        return error_set("%s: expected a solver state (.solverstate), found a text", path);
    if (proto_next(file->proto, &at, end, &first))
        return -1;
    if (first.type == PROTO_BYTES &&
        (first.number == 1 || first.number == 2 || first.number == 100))
        return error_set("%s is a model, not a solver state: give it to --weights, or give the "
                         ".solverstate that belongs to it",
                         path);
    if (first.number != ITER || first.type != PROTO_VARINT ||
        (at < end && (proto_next(file->proto, &at, end, &second) || second.type != PROTO_BYTES)))
        return error_set("%s: expected a solver state (.solverstate), found something else", path);
    return 0;
}

int state_file_open(const char *path, struct state_file **out)
{
    struct state_file *file = calloc(1, sizeof *file);
    struct proto_field field;
    uint64_t at = 0, end;

    if (file == NULL)
        return error_memory(sizeof *file, path);
    if (proto_open(path, &file->proto) || check_kind(file))
        goto fail;
    end = proto_bytes(file->proto);
    while (at < end)
        if (proto_next(file->proto, &at, end, &field) || take_field(file, &field))
            goto fail;
    if (file->state.iter < 0 || file->state.current_step < 0) {
        error_set("%s: iter is %d and current_step %d; expected 0 or more", path, file->state.iter,
                  file->state.current_step);
        goto fail;
    }
    file->state.history = file->history;
    file->state.learned_net = file->learned_net != NULL ? file->learned_net : "";
    *out = file;
    return 0;

fail:
    state_file_close(file);
    return -1;
}

void state_file_close(struct state_file *file)
{
    if (file == NULL)
        return;
    proto_close(file->proto);
    free(file->history);
    free(file->learned_net);
    free(file);
}

const struct stored_state *state_file_state(const struct state_file *file)
{
    return &file->state;
}

int state_file_read(struct state_file *file, const struct stored_blob *blob, float *out)
{
    return stored_blob_read(file->proto, blob, out);
}
