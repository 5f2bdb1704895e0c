/* One phase of a net file, opened for a command. */
#include "commands/model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "commands/commands.h"
#include "spec/proto.h"
#include "spec/read.h"
#include "util/error.h"

static int define(const struct model_options *o, struct model *model)
{
    const Caffe__NetParameter *param = (const Caffe__NetParameter *)text_root(model->doc);
    int phase = !strcasecmp(o->phase, "TEST") ? CAFFE__PHASE__TEST : CAFFE__PHASE__TRAIN;
    struct net_state state = net_state_make(phase);
    char *stages = o->stages ? strdup(o->stages) : NULL, *rest = stages, *stage;
    int status = o->stages && !stages ? error_memory(strlen(o->stages), "stages") : 0;

    /* as Caffe's tools: the file's own stages stay, its phase and level do not */
    if (!status)
        status = net_state_merge(&state, param->state);
    state.phase = phase;
    state.level = o->level;
    while (!status && (stage = strsep(&rest, ",")) != NULL)
        status = net_state_add_stage(&state, stage);
    if (!status)
        status = net_def_create(model->doc, param, &state, &model->def);
    net_state_free(&state);
    free(stages);
    return status;
}

/* Some weight files name their layers and leave out what makes them a net; and an input that was assumed
 * may be what does not fit. */
static int explain(const char *path, const char *notices)
{
    const char *at = notices ? strstr(notices, "assuming images") : NULL;
    char text[4096];

    snprintf(text, sizeof text, "%s", error_text());
    if (proto_is_binary(path))
        return error_set("%s (this weight file carries no complete net: give its prototxt)", text);
    if (at)
        return error_set("%s (%.*s)", text, (int)strcspn(at, "\n"), at);
    return error_set("%s", text);
}

int model_open(const struct model_options *o, struct model *model)
{
    struct layer_env env = {.look_only = o->look_only, .batch = o->batch, .rank = o->rank,
                            .nranks = o->nranks > 0 ? o->nranks : 1, .seed = 1,
                            .notices = &model->notices, .base_file = o->model};
    long long chw[3];
    int64_t sizes[3];

    memset(model, 0, sizeof *model);
    if (strcasecmp(o->phase, "TEST") && strcasecmp(o->phase, "TRAIN"))
        return error_set("--phase=%s is not known (TRAIN or TEST)", o->phase);
    if (o->input_shape) {
        if (parse_chw(o->input_shape, chw))
            return -1;
        for (int i = 0; i < 3; i++)
            sizes[i] = chw[i];
        env.input_chw = sizes;
    }
    if (spec_read_net(o->model, &model->doc))
        return -1;
    model->notices = strdup(text_notices(model->doc)); /* the layers add theirs */
    if (!model->notices || define(o, model) ||
        net_create(model->def, !strcasecmp(o->phase, "TRAIN"), &env, NULL, &model->net)) {
        explain(o->model, model->notices);
        model_close(model);
        return -1;
    }
    return 0;
}

int model_define(const struct model_options *o, struct model *model)
{
    memset(model, 0, sizeof *model);
    if (spec_read_net(o->model, &model->doc) == 0 && define(o, model) == 0)
        return 0;
    model_close(model);
    return -1;
}

int model_build(struct model *model, const char *engine, const struct engine_options *options,
                uint64_t seed)
{
    if (engine_open(engine, options, &model->engine))
        return -1;
    return net_build(model->net, &model->engine, seed);
}

void model_close(struct model *model)
{
    net_destroy(model->net);
    if (model->engine.i)
        engine_close(&model->engine);
    net_def_destroy(model->def);
    text_free(model->doc);
    free(model->notices);
    memset(model, 0, sizeof *model);
}
