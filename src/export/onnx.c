/* Composing and writing ONNX's messages. Their texts and arrays come from one list of memory, so
 * that no message has to know which of its parts are borrowed; values go from the net's arena to
 * the file in pieces, and never exist twice. */
#include "export/onnx.h"

#include "config.h"
#include "util/error.h"
#include "util/file.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void *onnx_alloc(struct onnx *graph, size_t count, size_t size)
{
    void *memory = graph->failed ? NULL : owner_array(&graph->memory, count, size, "a graph");

    graph->failed = !memory;
    return memory;
}

const char *onnx_text(struct onnx *graph, const char *format, ...)
{
    va_list arguments, again;
    char *text;
    int length;

    va_start(arguments, format);
    va_copy(again, arguments);
    length = vsnprintf(NULL, 0, format, arguments);
    text = length < 0 ? NULL : onnx_alloc(graph, 1, (size_t)length + 1);
    if (text)
        vsnprintf(text, (size_t)length + 1, format, again);
    va_end(again);
    va_end(arguments);
    return text ? text : "";
}

/* protobuf-c's members are not const; nothing is written through them here. */
static char *copy_text(struct onnx *graph, const char *text)
{
    size_t bytes = strlen(text) + 1;
    char *copy = onnx_alloc(graph, 1, bytes);

    return copy ? memcpy(copy, text, bytes) : NULL;
}

/* A list that is full where its length is a power of two: doubles it. */
static void append(struct onnx *graph, void *list_of_pointers, size_t *n, void *item)
{
    void ***list = list_of_pointers, **longer;

    if ((*n & (*n - 1)) == 0) {
        longer = onnx_alloc(graph, 2 * (*n + 1), sizeof *longer);
        if (longer && *n)
            memcpy(longer, *list, *n * sizeof *longer);
        if (longer)
            *list = longer;
    }
    if (!graph->failed)
        (*list)[(*n)++] = item;
}

void onnx_init(struct onnx *graph, const char *name)
{
    onnx__model_proto__init(&graph->model);
    onnx__graph_proto__init(&graph->main);
    onnx__operator_set_id_proto__init(&graph->opset);
    graph->main.name = copy_text(graph, name);
    graph->opset.domain = copy_text(graph, "");
    graph->opset.has_version = true;
    graph->opset.version = ONNX_OPSET;
    graph->opsets[0] = &graph->opset;
    graph->model.has_ir_version = true;
    graph->model.ir_version = ONNX_IR_VERSION;
    graph->model.producer_name = copy_text(graph, PACKAGE_NAME);
    graph->model.producer_version = copy_text(graph, PACKAGE_VERSION);
    graph->model.graph = &graph->main;
    graph->model.opset_import = graph->opsets;
    graph->model.n_opset_import = 1;
    graph->prefix = "";
}

void onnx_free(struct onnx *graph)
{
    owner_free(&graph->memory);
    *graph = (struct onnx){.failed = false};
}

void onnx_prefix(struct onnx *graph, const char *prefix)
{
    graph->prefix = prefix;
    graph->nmade = 0;
}

void onnx_node_to(struct onnx *graph, const char *type, const char *const *inputs,
                  const char *const *outputs)
{
    Onnx__NodeProto *node = onnx_alloc(graph, 1, sizeof *node);

    if (!node)
        return;
    onnx__node_proto__init(node);
    node->op_type = copy_text(graph, type);
    node->name = copy_text(graph, onnx_text(graph, "%s:%d", graph->prefix, ++graph->nmade));
    for (int i = 0; inputs[i]; i++)
        append(graph, &node->input, &node->n_input, copy_text(graph, inputs[i]));
    for (int i = 0; outputs[i]; i++)
        append(graph, &node->output, &node->n_output, copy_text(graph, outputs[i]));
    append(graph, &graph->main.node, &graph->main.n_node, node);
    graph->last = node;
}

const char *onnx_node(struct onnx *graph, const char *type, const char *const *inputs)
{
    const char *name = onnx_text(graph, "%s:%d", graph->prefix, graph->nmade + 1);

    onnx_node_to(graph, type, inputs, (const char *const[]){name, NULL});
    return name;
}

/* Never NULL: without memory, what is written goes nowhere. */
static Onnx__AttributeProto *add_attribute(struct onnx *graph, const char *name,
                                           Onnx__AttributeProto__AttributeType type)
{
    Onnx__AttributeProto *attribute = onnx_alloc(graph, 1, sizeof *attribute);

    if (!attribute)
        return &graph->nowhere;
    onnx__attribute_proto__init(attribute);
    attribute->name = copy_text(graph, name);
    attribute->has_type = true;
    attribute->type = type;
    append(graph, &graph->last->attribute, &graph->last->n_attribute, attribute);
    return attribute;
}

void onnx_int(struct onnx *graph, const char *name, int64_t value)
{
    Onnx__AttributeProto *attribute =
        add_attribute(graph, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT);

    attribute->has_i = true;
    attribute->i = value;
}

void onnx_float(struct onnx *graph, const char *name, float value)
{
    Onnx__AttributeProto *attribute =
        add_attribute(graph, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT);

    attribute->has_f = true;
    attribute->f = value;
}

static int64_t *copy_ints(struct onnx *graph, int n, const int64_t *values)
{
    int64_t *copy = onnx_alloc(graph, (size_t)n, sizeof *copy);

    return copy && n ? memcpy(copy, values, (size_t)n * sizeof *copy) : copy;
}

void onnx_ints(struct onnx *graph, const char *name, int n, const int64_t *values)
{
    Onnx__AttributeProto *attribute =
        add_attribute(graph, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS);

    attribute->n_ints = (size_t)n;
    attribute->ints = copy_ints(graph, n, values);
}

void onnx_rename(struct onnx *graph, const char *value, const char *name)
{
    if (graph->failed)
        return;
    if (graph->nmade > 0 && !strcmp(graph->last->output[0], value))
        graph->last->output[0] = copy_text(graph, name);
    else
        onnx_node_to(graph, "Identity", (const char *const[]){value, NULL},
                     (const char *const[]){name, NULL});
}

static bool is_tensor_name(const struct onnx *graph, const char *name)
{
    for (size_t i = 0; i < graph->main.n_initializer; i++)
        if (!strcmp(graph->main.initializer[i]->name, name))
            return true;
    return false;
}

static Onnx__TensorProto *add_tensor(struct onnx *graph, const char *name, int naxes,
                                     const int64_t *dim, int32_t type)
{
    Onnx__TensorProto *tensor = onnx_alloc(graph, 1, sizeof *tensor);
    const char *own = onnx_text(graph, "%s.%s", graph->prefix, name);

    for (int i = 2; is_tensor_name(graph, own); i++)
        own = onnx_text(graph, "%s.%s%d", graph->prefix, name, i);
    if (!tensor)
        return NULL;
    onnx__tensor_proto__init(tensor);
    tensor->name = copy_text(graph, own);
    tensor->n_dims = (size_t)naxes;
    tensor->dims = copy_ints(graph, naxes, dim);
    tensor->has_data_type = true;
    tensor->data_type = type;
    append(graph, &graph->main.initializer, &graph->main.n_initializer, tensor);
    return graph->failed ? NULL : tensor;
}

static bool is_tensor(const Onnx__TensorProto *tensor, const struct shape *shape,
                      const float *values)
{
    return tensor->float_data == values && tensor->n_dims == (size_t)shape->naxes &&
           !memcmp(tensor->dims, shape->dim, tensor->n_dims * sizeof *tensor->dims);
}

const char *onnx_floats(struct onnx *graph, const char *name, const struct shape *shape,
                        const float *values)
{
    Onnx__TensorProto *tensor;

    for (size_t i = 0; i < graph->main.n_initializer; i++)
        if (is_tensor(graph->main.initializer[i], shape, values))
            return graph->main.initializer[i]->name;
    tensor =
        add_tensor(graph, name, shape->naxes, shape->dim, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT);
    if (!tensor)
        return "";
    tensor->n_float_data = shape_elems(shape);
    tensor->float_data = (float *)(uintptr_t)values;
    return tensor->name;
}

const char *onnx_scalar(struct onnx *graph, const char *name, float value)
{
    float *copy = onnx_alloc(graph, 1, sizeof *copy);

    if (!copy)
        return "";
    *copy = value;
    return onnx_floats(graph, name, &(struct shape){.naxes = 0}, copy);
}

const char *onnx_ints_value(struct onnx *graph, const char *name, int n, const int64_t *values)
{
    const int64_t dim[1] = {n};
    Onnx__TensorProto *tensor =
        add_tensor(graph, name, 1, dim, ONNX__TENSOR_PROTO__DATA_TYPE__INT64);

    if (!tensor)
        return "";
    tensor->n_int64_data = (size_t)n;
    tensor->int64_data = copy_ints(graph, n, values);
    return tensor->name;
}

static Onnx__ValueInfoProto *describe_value(struct onnx *graph, const char *name,
                                            const struct shape *shape, bool any_batch)
{
    struct description {
        Onnx__ValueInfoProto value;
        Onnx__TypeProto type;
        Onnx__TypeProto__Tensor tensor;
        Onnx__TensorShapeProto shape;
        Onnx__TensorShapeProto__Dimension dim[SHAPE_MAX_AXES];
    } *d = onnx_alloc(graph, 1, sizeof *d);

    if (!d)
        return NULL;
    onnx__value_info_proto__init(&d->value);
    onnx__type_proto__init(&d->type);
    onnx__type_proto__tensor__init(&d->tensor);
    onnx__tensor_shape_proto__init(&d->shape);
    d->value.name = copy_text(graph, name);
    d->value.type = &d->type;
    d->type.tensor_type = &d->tensor;
    d->tensor.has_elem_type = true;
    d->tensor.elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    d->tensor.shape = &d->shape;
    for (int i = 0; i < shape->naxes; i++) {
        onnx__tensor_shape_proto__dimension__init(&d->dim[i]);
        if (i == 0 && any_batch)
            d->dim[i].dim_param = copy_text(graph, "N");
        d->dim[i].has_dim_value = !d->dim[i].dim_param;
        d->dim[i].dim_value = shape->dim[i];
        append(graph, &d->shape.dim, &d->shape.n_dim, &d->dim[i]);
    }
    return &d->value;
}

void onnx_tell(struct onnx *graph, enum onnx_place place, const char *name,
               const struct shape *shape, bool any_batch)
{
    Onnx__GraphProto *main = &graph->main;
    Onnx__ValueInfoProto ***const lists[] = {&main->input, &main->output, &main->value_info};
    size_t *const counts[] = {&main->n_input, &main->n_output, &main->n_value_info};

    for (int l = 0; l <= (int)place; l++)
        for (size_t i = 0; i < *counts[l]; i++)
            if (!strcmp((*lists[l])[i]->name, name))
                return;
    append(graph, lists[place], counts[place], describe_value(graph, name, shape, any_batch));
}

void onnx_note(struct onnx *graph, const char *key, const char *value)
{
    Onnx__StringStringEntryProto *entry = onnx_alloc(graph, 1, sizeof *entry);

    if (!entry)
        return;
    onnx__string_string_entry_proto__init(entry);
    entry->key = copy_text(graph, key);
    entry->value = copy_text(graph, value);
    append(graph, &graph->model.metadata_props, &graph->model.n_metadata_props, entry);
}

bool onnx_is_taken(const struct onnx *graph, const char *value)
{
    for (size_t n = 0; n < graph->main.n_node; n++)
        for (size_t i = 0; i < graph->main.node[n]->n_input; i++)
            if (!strcmp(graph->main.node[n]->input[i], value))
                return true;
    return false;
}

/* protobuf-c hands over pieces of the message. */
struct piece_writer {
    ProtobufCBuffer base;
    struct file_writer file;
};

static void append_piece(ProtobufCBuffer *base, size_t length, const uint8_t *data)
{
    file_writer_put(&((struct piece_writer *)base)->file, data, length);
}

int onnx_save(struct onnx *graph, const char *path)
{
    struct piece_writer to = {.base.append = append_piece};
    size_t bytes;
    int status;

    if (graph->failed || onnx_check(graph))
        return -1;
    bytes = onnx__model_proto__get_packed_size(&graph->model);
    if (bytes > INT32_MAX)
        return error_set("%s: the net would take %zu bytes, and readers of ONNX take 2 GB at most",
                         path, bytes);
    status = file_writer_open(&to.file, path);
    if (!status)
        onnx__model_proto__pack_to_buffer(&graph->model, &to.base);
    return file_writer_close(&to.file, status);
}
