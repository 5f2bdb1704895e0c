/* Caffe's binary solver states (.solverstate). */
#include "spec/modelfile.h"

#include "spec/stored_blob.h"
#include "util/error.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define HISTORY_MOST 200000
#define TEXT_MOST    65536
#define PLAN_MOST    (1 << 20)

/* Numbers of the fields; the last two are ours, far above Caffe's. */
enum { ITER = 1, LEARNED_NET, HISTORY, CURRENT_STEP, DATA_CURSOR = 1000 };

struct state_file {
    struct proto *proto;
    struct stored_state state;
    struct stored_blob *history; /* what state.history shows */
    int room;
    char *learned_net, *run, *digest, *plan, *memory;
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
    return proto_take_text(file->proto, field, TEXT_MOST, &file->learned_net)
               ? error_context("learned_net")
               : 0;
}

static int take_text(struct state_file *file, const struct proto_field *field)
{
    switch (field->number) {
    case HISTORY:
        return add_history(file, field);
    case LEARNED_NET:
        return set_learned_net(file, field);
    case STATE_FILE_RUN:
        return proto_take_text(file->proto, field, TEXT_MOST, &file->run);
    case STATE_FILE_DIGEST:
        return proto_take_text(file->proto, field, TEXT_MOST, &file->digest);
    case STATE_FILE_PLAN:
        return proto_take_text(file->proto, field, PLAN_MOST, &file->plan);
    case STATE_FILE_MEMORY:
        return proto_take_text(file->proto, field, TEXT_MOST, &file->memory);
    default:
        return 0;
    }
}

static int take_field(struct state_file *file, const struct proto_field *field)
{
    struct stored_state *state = &file->state;

    if (proto_is_seal(file->proto, field))
        return proto_check_seal(file->proto, field);
    if (field->type == PROTO_BYTES)
        return take_text(file, field);
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
    case STATE_FILE_BATCH:
        state->global_batch = (int64_t)field->value;
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
    file->state.run = file->run;
    file->state.digest = file->digest;
    file->state.plan = file->plan;
    file->state.memory = file->memory;
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
    free(file->run);
    free(file->digest);
    free(file->plan);
    free(file->memory);
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
