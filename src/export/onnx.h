/* A graph of ONNX, put together node by node.
 *
 * A value is known by its name. Whatever is made here lives as long as the graph does, and the
 * first failure to get memory is remembered until onnx_save: what is called after it does nothing,
 * so that a whole graph can be composed without checking every call. */
#ifndef POSEIDON_EXPORT_ONNX_H
#define POSEIDON_EXPORT_ONNX_H

#include "engine/tensor.h"
#include "export/onnx.pb-c.h"
#include "util/owner.h"

#include <stdbool.h>

/* What every reader of these years takes: onnxruntime since 1.6 of 2020. */
enum { ONNX_IR_VERSION = 7, ONNX_OPSET = 13 };

/* All zero, then onnx_init. */
struct onnx {
    Onnx__ModelProto model;
    Onnx__GraphProto main;
    Onnx__OperatorSetIdProto opset, *opsets[1];
    Onnx__NodeProto *last;        /* the last node, which attributes are for; NULL: none */
    struct owner memory;          /* of all that is made */
    const char *prefix;           /* of the names that are made; borrowed */
    int nmade;                    /* nodes since the prefix was set */
    Onnx__AttributeProto nowhere; /* of a graph that failed */
    bool failed;
};

/* name: of the net; not empty. */
void onnx_init(struct onnx *graph, const char *name);
void onnx_free(struct onnx *graph);

/* Names from here on begin with that of a layer. Borrowed while the graph lives. */
void onnx_prefix(struct onnx *graph, const char *prefix);

/* A text in the graph's memory; "" where there is none left. */
const char *onnx_text(struct onnx *graph, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A node of one output, whose name is returned: ONNX_NODE(graph, "Add", a, b). */
const char *onnx_node(struct onnx *graph, const char *type, const char *const *inputs);
#define ONNX_NODE(graph, type, ...) onnx_node(graph, type, (const char *const[]){__VA_ARGS__, NULL})

/* The same with the outputs' names given, NULL behind the last. */
void onnx_node_to(struct onnx *graph, const char *type, const char *const *inputs,
                  const char *const *outputs);

/* Attributes of the last node. */
void onnx_int(struct onnx *graph, const char *name, int64_t value);
void onnx_float(struct onnx *graph, const char *name, float value);
void onnx_ints(struct onnx *graph, const char *name, int n, const int64_t *values);

/* The value under another name: that of the last node if it made it for this layer, else through an
 * Identity. */
void onnx_rename(struct onnx *graph, const char *value, const char *name);

/* Constants, named PREFIX.NAME, and a number where that is taken. The floats are borrowed until the
 * graph is freed; the same ones in the same shape are one constant. The integers are copied. */
const char *onnx_floats(struct onnx *graph, const char *name, const struct shape *shape,
                        const float *values);
const char *onnx_scalar(struct onnx *graph, const char *name, float value);
const char *onnx_ints_value(struct onnx *graph, const char *name, int n, const int64_t *values);

/* Zeroed items in the graph's memory; NULL where there is none left. */
void *onnx_alloc(struct onnx *graph, size_t count, size_t size);

/* The shape of a value that goes in, comes out or stands between; once, however often it is said.
 * any_batch: the first axis, if there is one, may have any length. */
enum onnx_place { ONNX_INPUT, ONNX_OUTPUT, ONNX_BETWEEN, ONNX_NOWHERE };
void onnx_tell(struct onnx *graph, enum onnx_place place, const char *name,
               const struct shape *shape, bool any_batch);

/* Whether some node takes the value. */
bool onnx_is_taken(const struct onnx *graph, const char *value);

/* A word about the model, for programs that look for it; copied. */
void onnx_note(struct onnx *graph, const char *key, const char *value);

/* Fails on a graph that no reader takes: a node's input that is not made in front of it, a name
 * that is made twice, shapes that do not go together or are not those that were told. */
int onnx_check(const struct onnx *graph);

/* Writes the file, whole or not at all, and none that onnx_check refuses. */
int onnx_save(struct onnx *graph, const char *path);

#endif
