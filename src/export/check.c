/* A graph held against ONNX's rules before it becomes a file: every input of a node has been made
 * in front of it, every name is made once, and the shapes that follow from the inputs' are those of
 * the net's blobs. Nothing here knows how the graph was composed. */
#include "export/onnx.h"

#include "util/alloc.h"
#include "util/error.h"

#include <stdlib.h>
#include <string.h>

/* What has been made so far. */
struct value {
    const char *name;              /* borrowed from the graph */
    const Onnx__TensorProto *ints; /* a constant of integers: a shape, say; else NULL */
    struct shape shape;
};

struct check {
    const struct onnx *graph;
    struct value *values;
    size_t nvalues;
    const Onnx__NodeProto *node;
};

/* The node being looked at, with its inputs, and the shape of its outputs to be. */
struct step {
    const struct value *in[3];
    const struct shape *x, *w; /* of the first and the second input */
    struct shape y;
};

static const struct value *find_value(const struct check *c, const char *name)
{
    for (size_t i = 0; i < c->nvalues; i++)
        if (!strcmp(c->values[i].name, name))
            return &c->values[i];
    return NULL;
}

static int add_value(struct check *c, const char *name, const struct shape *shape,
                     const Onnx__TensorProto *ints)
{
    if (find_value(c, name))
        return error_set("'%s' is made twice", name);
    if (ALLOC_ROOM(c->values, c->nvalues, "a graph's values"))
        return -1;
    c->values[c->nvalues++] = (struct value){name, ints, *shape};
    return 0;
}

static struct shape shape_of(const Onnx__ValueInfoProto *info)
{
    const Onnx__TensorShapeProto *from = info->type->tensor_type->shape;
    struct shape shape = {.naxes = (int)from->n_dim};

    for (size_t i = 0; i < from->n_dim; i++)
        shape.dim[i] = from->dim[i]->dim_value;
    return shape;
}

/* ---- what nodes make of shapes ---- */

static const Onnx__AttributeProto *attribute(const struct check *c, const char *name)
{
    for (size_t i = 0; i < c->node->n_attribute; i++)
        if (!strcmp(c->node->attribute[i]->name, name))
            return c->node->attribute[i];
    return NULL;
}

static int64_t int_of(const struct check *c, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *a = attribute(c, name);

    return a ? a->i : otherwise;
}

/* Number i of a list; `otherwise` where there is none. */
static int64_t nth_of(const struct check *c, const char *name, size_t i, int64_t otherwise)
{
    const Onnx__AttributeProto *a = attribute(c, name);

    return a && i < a->n_ints ? a->ints[i] : otherwise;
}

static bool infer_same(const struct check *c, struct step *s)
{
    (void)c;
    s->y = *s->x;
    return true;
}

static bool infer_norm(const struct check *c, struct step *s)
{
    for (size_t i = 1; i < c->node->n_input; i++)
        if (shape_elems(&find_value(c, c->node->input[i])->shape) != (size_t)s->x->dim[1])
            return false;
    return infer_same(c, s);
}

/* Axes are lined up at their ends, and ones stretch. */
static bool infer_broadcast(const struct check *c, struct step *s)
{
    const struct shape *a = s->x, *b = s->w;
    int naxes = a->naxes > b->naxes ? a->naxes : b->naxes;

    (void)c;
    s->y.naxes = naxes;
    for (int i = 0; i < naxes; i++) {
        int at = i - (naxes - a->naxes), bt = i - (naxes - b->naxes);
        int64_t left = at < 0 ? 1 : a->dim[at], right = bt < 0 ? 1 : b->dim[bt];

        if (left != right && left != 1 && right != 1)
            return false;
        s->y.dim[i] = left == 1 ? right : left;
    }
    return true;
}

/* The slopes stretch, and not what they are for. */
static bool infer_prelu(const struct check *c, struct step *s)
{
    return infer_broadcast(c, s) && shape_equal(&s->y, s->x);
}

/* Convolution, its transpose, pooling: weights, if there are any, say how many channels come. */
static bool infer_windows(const struct check *c, struct step *s)
{
    bool transposed = !strcmp(c->node->op_type, "ConvTranspose"), pools = !s->w;
    int64_t group = int_of(c, "group", 1), in = s->x->naxes > 2 ? s->x->dim[1] : 0;
    size_t naxes = (size_t)s->x->naxes - 2;

    if (in == 0 || (!pools && s->w->naxes != s->x->naxes))
        return false;
    s->y = *s->x;
    if (!pools) {
        s->y.dim[1] = transposed ? s->w->dim[1] * group : s->w->dim[0];
        if (in != (transposed ? s->w->dim[0] : s->w->dim[1] * group) || s->y.dim[1] % group ||
            (s->in[2] && shape_elems(&s->in[2]->shape) != (size_t)s->y.dim[1]))
            return false;
    }
    for (size_t i = 0; i < naxes; i++) {
        int64_t kernel = nth_of(c, "kernel_shape", i, 0), stride = nth_of(c, "strides", i, 1);
        int64_t span = nth_of(c, "dilations", i, 1) * (kernel - 1) + 1, size = s->x->dim[2 + i];
        int64_t pads = nth_of(c, "pads", i, 0) + nth_of(c, "pads", naxes + i, 0);

        if (kernel < 1 || stride < 1 || (!pools && s->w->dim[2 + i] != kernel) ||
            (!transposed && size + pads < span))
            return false;
        s->y.dim[2 + i] =
            transposed ? (size - 1) * stride + span - pads : (size + pads - span) / stride + 1;
    }
    return true;
}

static bool infer_global(const struct check *c, struct step *s)
{
    (void)c;
    s->y = *s->x;
    for (int i = 2; i < s->y.naxes; i++)
        s->y.dim[i] = 1;
    return s->y.naxes > 2;
}

static bool infer_reshape(const struct check *c, struct step *s)
{
    const Onnx__TensorProto *to = s->in[1] ? s->in[1]->ints : NULL;
    int64_t known = 1, elems = (int64_t)shape_elems(s->x);

    (void)c;
    if (!to || to->n_int64_data > SHAPE_MAX_AXES)
        return false;
    s->y.naxes = (int)to->n_int64_data;
    for (int i = 0; i < s->y.naxes; i++)
        known *= to->int64_data[i] < 0 ? 1 : to->int64_data[i];
    for (int i = 0; i < s->y.naxes; i++)
        s->y.dim[i] = to->int64_data[i] < 0 ? elems / (known ? known : 1) : to->int64_data[i];
    return (int64_t)shape_elems(&s->y) == elems;
}

static bool infer_flatten(const struct check *c, struct step *s)
{
    int axis = (int)int_of(c, "axis", 1);

    s->y = (struct shape){2, {1, 1}};
    for (int i = 0; i < s->x->naxes; i++)
        s->y.dim[i >= axis] *= s->x->dim[i];
    return true;
}

static bool infer_gemm(const struct check *c, struct step *s)
{
    int inner = int_of(c, "transB", 0) != 0;

    if (s->x->naxes != 2 || s->w->naxes != 2 || s->x->dim[1] != s->w->dim[inner])
        return false;
    s->y = (struct shape){2, {s->x->dim[0], s->w->dim[!inner]}};
    return !s->in[2] || shape_elems(&s->in[2]->shape) == (size_t)s->y.dim[1];
}

static bool infer_concat(const struct check *c, struct step *s)
{
    int64_t axis = int_of(c, "axis", 0);

    if (axis < 0 || axis >= s->x->naxes)
        return false;
    s->y = *s->x;
    s->y.dim[axis] = 0;
    for (size_t i = 0; i < c->node->n_input; i++) {
        struct shape other = find_value(c, c->node->input[i])->shape;

        s->y.dim[axis] += other.dim[axis];
        other.dim[axis] = s->x->dim[axis];
        if (!shape_equal(&other, s->x))
            return false;
    }
    return true;
}

static bool infer_slice(const struct check *c, struct step *s)
{
    const Onnx__TensorProto *begin = s->in[1]->ints, *end = s->in[2] ? s->in[2]->ints : NULL;
    const Onnx__TensorProto *axes =
        c->node->n_input > 3 ? find_value(c, c->node->input[3])->ints : NULL;

    if (!begin || !end || !axes)
        return false;
    s->y = *s->x;
    for (size_t i = 0; i < axes->n_int64_data; i++) {
        if (end->int64_data[i] > s->x->dim[axes->int64_data[i]])
            return false;
        s->y.dim[axes->int64_data[i]] = end->int64_data[i] - begin->int64_data[i];
    }
    return true;
}

static bool infer_tile(const struct check *c, struct step *s)
{
    const Onnx__TensorProto *times = s->in[1]->ints;

    (void)c;
    if (!times || times->n_int64_data != (size_t)s->x->naxes)
        return false;
    s->y = *s->x;
    for (int i = 0; i < s->y.naxes; i++)
        s->y.dim[i] *= times->int64_data[i];
    return true;
}

static bool infer_transpose(const struct check *c, struct step *s)
{
    s->y = *s->x;
    for (int i = 0; i < s->y.naxes; i++)
        s->y.dim[i] = s->x->dim[nth_of(c, "perm", (size_t)i, 0)];
    return true;
}

/* All that operators.c makes nodes of, Split apart, whose outputs differ; what is not here leaves
 * the shape as it is. */
static const struct {
    const char *type;
    size_t least; /* inputs */
    bool (*infer)(const struct check *c, struct step *s);
} rules[] = {
    {"Add", 2, infer_broadcast},
    {"Mul", 2, infer_broadcast},
    {"Max", 2, infer_broadcast},
    {"Pow", 2, infer_broadcast},
    {"Greater", 2, infer_broadcast},
    {"PRelu", 2, infer_prelu},
    {"Conv", 2, infer_windows},
    {"ConvTranspose", 2, infer_windows},
    {"MaxPool", 1, infer_windows},
    {"AveragePool", 1, infer_windows},
    {"GlobalMaxPool", 1, infer_global},
    {"GlobalAveragePool", 1, infer_global},
    {"Reshape", 2, infer_reshape},
    {"Flatten", 1, infer_flatten},
    {"Gemm", 2, infer_gemm},
    {"Concat", 1, infer_concat},
    {"Slice", 4, infer_slice},
    {"Tile", 2, infer_tile},
    {"Transpose", 1, infer_transpose},
    {"BatchNormalization", 5, infer_norm},
};

/* ---- the walk ---- */

static int shapes_disagree(const struct step *s)
{
    return error_set("the shapes %s and %s do not go together", shape_text(s->x).text,
                     s->w ? shape_text(s->w).text : "of its attributes");
}

static int check_split(struct check *c, struct step *s)
{
    const Onnx__TensorProto *sizes = s->in[1] ? s->in[1]->ints : NULL;
    int64_t axis = int_of(c, "axis", 0), rest;

    if (!sizes || sizes->n_int64_data != c->node->n_output || axis >= s->x->naxes)
        return shapes_disagree(s);
    s->y = *s->x;
    rest = s->x->dim[axis];
    for (size_t i = 0; i < c->node->n_output; i++) {
        s->y.dim[axis] = sizes->int64_data[i];
        rest -= sizes->int64_data[i];
        if (add_value(c, c->node->output[i], &s->y, NULL))
            return -1;
    }
    return rest == 0 ? 0 : shapes_disagree(s);
}

static int check_node(struct check *c)
{
    const Onnx__NodeProto *node = c->node;
    struct step s = {.y = {.naxes = 0}};
    size_t rule = 0, nrules = sizeof rules / sizeof *rules;

    for (size_t i = 0; i < node->n_input; i++) {
        const struct value *value = find_value(c, node->input[i]);

        if (!value)
            return error_set("it reads '%s', which nothing in front of it makes", node->input[i]);
        if (i < 3)
            s.in[i] = value;
    }
    while (rule < nrules && strcmp(rules[rule].type, node->op_type))
        rule++;
    if (node->n_input < (rule < nrules ? rules[rule].least : 1))
        return error_set("it has %zu inputs", node->n_input);
    s.x = &s.in[0]->shape;
    s.w = s.in[1] ? &s.in[1]->shape : NULL;
    if (!strcmp(node->op_type, "Split"))
        return check_split(c, &s);
    if (rule < nrules ? !rules[rule].infer(c, &s) : !infer_same(c, &s))
        return shapes_disagree(&s);
    return add_value(c, node->output[0], &s.y, NULL);
}

/* Those of the net that the graph tells. */
static int check_told(const struct check *c, size_t n, Onnx__ValueInfoProto *const *told)
{
    for (size_t i = 0; i < n; i++) {
        const struct value *value = find_value(c, told[i]->name);
        struct shape shape = shape_of(told[i]);

        if (!value)
            return error_set("nothing makes '%s'", told[i]->name);
        if (!shape_equal(&value->shape, &shape))
            return error_set("'%s' would have the shape %s, and the net's is %s", told[i]->name,
                             shape_text(&value->shape).text, shape_text(&shape).text);
    }
    return 0;
}

static int check_all(struct check *c)
{
    const Onnx__GraphProto *main = &c->graph->main;

    for (size_t i = 0; i < main->n_input; i++) {
        struct shape shape = shape_of(main->input[i]);

        if (add_value(c, main->input[i]->name, &shape, NULL))
            return -1;
    }
    for (size_t i = 0; i < main->n_initializer; i++) {
        const Onnx__TensorProto *t = main->initializer[i];
        struct shape shape;

        if (shape_set(&shape, (int)t->n_dims, t->dims, t->name) ||
            add_value(c, t->name, &shape, t->n_int64_data ? t : NULL))
            return -1;
        if (shape_elems(&shape) != t->n_float_data + t->n_int64_data)
            return error_set("'%s' has %zu values; its shape is %s", t->name,
                             t->n_float_data + t->n_int64_data, shape_text(&shape).text);
    }
    for (size_t i = 0; i < main->n_node; i++) {
        c->node = main->node[i];
        if (check_node(c))
            return error_context("node '%s' (%s)", c->node->name, c->node->op_type);
    }
    return error_status(check_told(c, main->n_output, main->output) ||
                        check_told(c, main->n_value_info, main->value_info));
}

int onnx_check(const struct onnx *graph)
{
    struct check c = {.graph = graph};
    int status = check_all(&c);

    free(c.values);
    return status ? error_context("the graph is not valid ONNX, which is a fault of poseidon "
                                  "(please report the net); nothing was written")
                  : 0;
}
