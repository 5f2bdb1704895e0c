/* Parses each override with the file reader, as a solver of one field, and moves the value into the
 * real solver. */
#include "spec/override.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "spec/caffe.pb-c.h"
#include "spec/field.h"
#include "spec/suggest_field.h"
#include "util/alloc.h"
#include "util/strbuf.h"

/* Writes FIELD: VALUE as in a solver file. */
static void put_text(const ProtobufCFieldDescriptor *field, const char *value, struct strbuf *text)
{
    bool quoted = *value == '"' || *value == '\'' || *value == '[',
         list = field->label == PROTOBUF_C_LABEL_REPEATED && *value != '[';

    strbuf_printf(text, "%s: %s", field->name, list ? "[" : "");
    if (field->type == PROTOBUF_C_TYPE_STRING && !quoted) {
        strbuf_putc(text, '"');
        for (; *value; value++) {
            if (*value == '"' || *value == '\\')
                strbuf_putc(text, '\\');
            strbuf_putc(text, *value);
        }
        strbuf_putc(text, '"');
    } else {
        strbuf_puts(text, value);
    }
    strbuf_puts(text, list ? "]" : "");
}

static int find_field(const ProtobufCMessageDescriptor *solver, const char *setting,
                      const char *equals, const ProtobufCFieldDescriptor **out)
{
    static const struct {
        const char *name, *field; /* name in other programs; Caffe's field */
    } usual[] = {{"lr", "base_lr"},
                 {"learning_rate", "base_lr"},
                 {"wd", "weight_decay"},
                 {"optimizer", "type"},
                 {"scheduler", "lr_policy"}};
    char name[64], remark[512];

    snprintf(name, sizeof name, "%.*s", (int)(equals - setting), setting);
    *out = message_find_field(solver, name);
    if (*out && (*out)->type == PROTOBUF_C_TYPE_MESSAGE)
        return error_set("--set %s: %s is a block; expected a field with one value", setting, name);
    if (*out)
        return 0;
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (!strcmp(name, usual[i].name))
            return error_set("--set %s: a solver has no field \"%s\"; did you mean \"%s\"?",
                             setting, name, usual[i].field);
    suggest_field(solver, NULL, name, remark, sizeof remark);
    return error_set("--set %s: a solver has no field \"%s\"%s", setting, name, remark);
}

static int set_field(struct text_doc *solver, const char *setting)
{
    ProtobufCMessage *root = text_root(solver);
    const ProtobufCFieldDescriptor *field;
    const char *equals = strchr(setting, '=');
    struct strbuf text = {.data = NULL};
    struct text_doc *parsed = NULL;
    int status;

    if (!equals || equals == setting || !equals[1])
        return error_set("--set %s: expected FIELD=VALUE such as base_lr=0.02", setting);
    if (find_field(root->descriptor, setting, equals, &field))
        return -1;
    put_text(field, equals + 1, &text);
    status = strbuf_status(&text);
    if (!status)
        status =
            text_read_string("--set", strbuf_text(&text), text.length, root->descriptor, &parsed);
    if (!status)
        status = field_move(text_root(parsed), field, root, field);
    else if (!strncmp(error_text(), "--set:", 6)) { /* an override has no line in a file */
        const char *reason = strstr(error_text(), ": ");
        error_set("--set %s%s", setting, reason ? reason : "");
    }
    text_free(parsed);
    strbuf_free(&text);
    return status;
}

static int set_state(struct text_doc *solver, const struct spec_overrides *o)
{
    Caffe__SolverParameter *param = (Caffe__SolverParameter *)text_root(solver);
    const ProtobufCFieldDescriptor *field =
        message_find_field(&caffe__net_state__descriptor, "stage");
    ProtobufCMessage *state;
    char **stages;
    int n, taken = 0;
    int status = alloc_split(&stages, &n, o->stages ? o->stages : "", "stages");

    if (!status)
        status = message_part(&param->base, "train_state", &state);
    if (!status && o->level) {
        param->train_state->has_level = true;
        param->train_state->level = o->level;
    }
    while (taken < n && !status && !(status = field_append(state, field, &stages[taken], false)))
        stages[taken++] = NULL;
    alloc_free_list(stages, n);
    return status;
}

int spec_override(struct text_doc *solver, const struct spec_overrides *o)
{
    for (int i = 0; i < o->nsettings; i++)
        if (set_field(solver, o->settings[i]))
            return -1;
    return o->stages || o->level ? set_state(solver, o) : 0;
}
