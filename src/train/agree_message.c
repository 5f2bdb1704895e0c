/* The fields of a protobuf message as lines of an agreement. */
#include "train/agree_job.h"

#include "spec/caffe.pb-c.h"
#include "spec/field.h"
#include "spec/print.h"
#include "util/suggest.h"

static void cut(struct strbuf *text, size_t length)
{
    if (text->failed)
        return;
    text->length = length;
    text->data[length] = '\0';
}

/* "layer 'conv1'", with nothing in it that would end a name or a line. */
static void put_layer(struct strbuf *path, const Caffe__LayerParameter *layer)
{
    strbuf_puts(path, "layer '");
    for (const char *c = layer->name ? layer->name : ""; *c; c++)
        strbuf_putc(path, (unsigned char)*c < ' ' ? '?' : *c);
    strbuf_putc(path, '\'');
}

static void put_fields(struct strbuf *list, struct strbuf *path, const ProtobufCMessage *message,
                       const char *except);

static void put_inner(struct strbuf *list, struct strbuf *path,
                      const ProtobufCFieldDescriptor *field, size_t index,
                      const ProtobufCMessage *inner, const char *except)
{
    size_t length = path->length;

    strbuf_puts(path, field->name);
    if (field->label == PROTOBUF_C_LABEL_REPEATED)
        strbuf_printf(path, "[%zu]", index);
    if (inner->descriptor == &caffe__layer_parameter__descriptor) {
        /* a layer that only one rank has shows here, before its fields could seem to differ */
        strbuf_printf(list, "%s\t", strbuf_text(path));
        cut(path, length);
        put_layer(path, (const Caffe__LayerParameter *)inner);
        strbuf_printf(list, "%s\n", strbuf_text(path) + length);
        strbuf_putc(path, ' ');
    } else {
        strbuf_putc(path, '.');
    }
    put_fields(list, path, inner, except);
    cut(path, length);
}

static void put_fields(struct strbuf *list, struct strbuf *path, const ProtobufCMessage *message,
                       const char *except)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        size_t count = suggest_lists(except, field->name) ? 0 : field_count(message, field);

        if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
            for (size_t k = 0; k < count; k++)
                put_inner(list, path, field, k,
                          *(ProtobufCMessage *const *)field_at(message, field, k), except);
        } else if (count > 0) {
            strbuf_printf(list, "%s%s\t", strbuf_text(path), field->name);
            for (size_t k = 0; k < count; k++) {
                strbuf_puts(list, k ? ", " : "");
                print_value(list, field, field_at(message, field, k));
            }
            strbuf_putc(list, '\n');
        }
    }
}

void agree_job_put_message(struct strbuf *list, const char *prefix, const ProtobufCMessage *message,
                           const char *except)
{
    struct strbuf path = {.data = NULL};

    strbuf_puts(&path, prefix);
    put_fields(list, &path, message, except);
    list->failed |= path.failed;
    strbuf_free(&path);
}
