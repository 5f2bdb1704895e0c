/* Sum, product or maximum of several bottoms, element by element, in one common format. */
#include "engine/cpu/element.h"

#include "engine/op_size.h"

#include <string.h>

struct eltwise {
    struct cpu_op op;
    size_t n;         /* elements of a tensor in the common format */
    bool half;        /* elements are bfloat16 */
    int32_t *winner;  /* MAX in TRAIN: number of the bottom with the maximum */
    bool passes_grad; /* top's gradient and bottom 0's share memory */
};

/* Returns true if bottom 0 can share the top's gradient, which a sum passes on unchanged. */
static bool eltwise_passes_grad(const struct eltwise *elt, const struct cpu_format *format)
{
    const struct cpu_op *op = &elt->op;

    return !cpu_op_in_place(op) && op->args.u.eltwise.operation == ELTWISE_SUM &&
           cpu_op_propagates(op, 0) && op_eltwise_coeff(&op->args, 0) == 1 &&
           cpu_tensor_format(&op->args.bottoms[0]->grad) == format;
}

static int eltwise_create(struct cpu_op *op)
{
    struct eltwise *elt = (struct eltwise *)op;
    const struct cpu_format *format;

    format = cpu_op_in_place(op) ? cpu_tensor_format(&op->args.bottoms[0]->value)
                                 : cpu_format_of_bottoms(op);
    elt->n = cpu_format_elems(&op->args.tops[0]->value.shape, format);
    elt->half = cpu_format_half(format);
    if (!cpu_op_in_place(op))
        cpu_top_set(op->args.tops[0], format);
    if (op->args.u.eltwise.operation == ELTWISE_MAX && op->args.train &&
        !(elt->winner = cpu_op_alloc(op, elt->n * sizeof *elt->winner, "the winners of a maximum")))
        return -1;
    elt->passes_grad = eltwise_passes_grad(elt, format);
    if (elt->passes_grad)
        op->args.tops[0]->grad.base = &op->args.bottoms[0]->grad;
    for (int i = 0; i < op->args.nbottoms; i++)
        if (cpu_op_take(op, i, format, WORK_OWN))
            return -1;
    return 0;
}

CPU_KERNEL static void eltwise_product_piece(float *restrict y, const float *restrict x, size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        y[i] *= x[i];
}

/* Applies Caffe's rule for equal values: bottom 1 beats bottom 0, later bottoms must be greater. */
CPU_KERNEL static void eltwise_max_piece(float *restrict y, int32_t *restrict winner,
                                         const float *restrict x, int32_t bottom, size_t n)
{
    if (bottom == 1) {
#pragma omp simd
        for (size_t i = 0; i < n; i++) {
            int32_t keep = y[i] > x[i];
            y[i] = keep ? y[i] : x[i];
            winner[i] = keep ? 0 : 1;
        }
    } else {
#pragma omp simd
        for (size_t i = 0; i < n; i++) {
            int32_t greater = x[i] > y[i];
            y[i] = greater ? x[i] : y[i];
            winner[i] = greater ? bottom : winner[i];
        }
    }
}

CPU_KERNEL static void eltwise_max_back_piece(float *restrict dx, const float *restrict dy,
                                              const int32_t *restrict winner, int32_t bottom,
                                              size_t n)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++)
        dx[i] = winner[i] == bottom ? dy[i] : 0;
}

/* Returns the factor of bottom i: 1 for PROD and MAX. */
static float eltwise_coeff(const struct cpu_op *op, int i)
{
    return op->args.u.eltwise.operation == ELTWISE_SUM ? op_eltwise_coeff(&op->args, i) : 1;
}

static void eltwise_forward_piece(struct eltwise *elt, size_t at, size_t n)
{
    struct cpu_op *op = &elt->op;
    float x_room[CPU_PIECE], y_room[CPU_PIECE];
    float *y = piece_open(cpu_op_y(op), at, elt->half, y_room);
    int32_t unused[CPU_PIECE];
    int32_t *winner = elt->winner ? elt->winner + at : unused;

    if (op->args.u.eltwise.operation == ELTWISE_MAX)
        memset(winner, 0, n * sizeof *winner);
    for (int i = 0; i < op->args.nbottoms; i++) {
        const float coeff = eltwise_coeff(op, i);
        if (i == 0 && coeff == 1) {
            piece_copy(cpu_op_x(op, 0), at, n, elt->half, y);
            continue;
        }
        const float *x = piece_load(cpu_op_x(op, i), at, n, elt->half, x_room);
        if (op->args.u.eltwise.operation == ELTWISE_SUM)
            cpu_axpby_piece(y, coeff, x, i ? 1 : 0, n);
        else if (op->args.u.eltwise.operation == ELTWISE_PROD)
            eltwise_product_piece(y, x, n);
        else
            eltwise_max_piece(y, winner, x, i, n);
    }
    if (op->args.relu)
        cpu_relu_piece(y, 0, y, n);
    piece_store(y_room, cpu_op_y(op), at, n, elt->half);
}

static int eltwise_forward(struct cpu_op *op)
{
    struct eltwise *elt = (struct eltwise *)op;

#pragma omp parallel for
    for (size_t i = 0; i < elt->n; i += CPU_PIECE)
        eltwise_forward_piece(elt, i, cpu_piece(elt->n, i));
    return 0;
}

/* Computes the piece at `at` of a bottom's gradient. PROD multiplies the other bottoms: x may be 0.
 */
static void eltwise_backward_piece(struct eltwise *elt, int bottom, size_t at, size_t n)
{
    struct cpu_op *op = &elt->op;
    const enum eltwise_operation operation = op->args.u.eltwise.operation;
    const float coeff = eltwise_coeff(op, bottom);
    float x_room[CPU_PIECE], dy_room[CPU_PIECE], dx_room[CPU_PIECE];
    float *dx = piece_open(cpu_op_dx(op, bottom), at, elt->half, dx_room);
    const float *dy;

    if (operation == ELTWISE_SUM && coeff == 1) {
        memcpy(element_room(cpu_op_dx(op, bottom), (int64_t)at, elt->half),
               element_place(cpu_op_dy(op), (int64_t)at, elt->half),
               n * (elt->half ? sizeof(uint16_t) : sizeof(float)));
        return;
    }
    dy = piece_load(cpu_op_dy(op), at, n, elt->half, dy_room);
    switch (operation) {
    case ELTWISE_SUM:
        cpu_axpby_piece(dx, coeff, dy, 0, n);
        break;
    case ELTWISE_MAX:
        eltwise_max_back_piece(dx, dy, elt->winner + at, bottom, n);
        break;
    case ELTWISE_PROD:
        memcpy(dx, dy, n * sizeof *dx);
        for (int i = 0; i < op->args.nbottoms; i++)
            if (i != bottom)
                eltwise_product_piece(dx, piece_load(cpu_op_x(op, i), at, n, elt->half, x_room), n);
        break;
    }
    piece_store(dx_room, cpu_op_dx(op, bottom), at, n, elt->half);
}

static bool eltwise_writes(const struct eltwise *elt, int i)
{
    return elt->op.out[i].tensor && cpu_op_propagates(&elt->op, i) && !(i == 0 && elt->passes_grad);
}

static bool eltwise_relays(const struct eltwise *elt, int i)
{
    return cpu_view_differs(&elt->op.out[i]);
}

/* Computes gradients, a piece at a time: of one bottom or, with -1, of all bottoms whose
 * gradients have the common format. Bottom 0 comes last: its gradient may share dy's memory. */
static void eltwise_backward_pieces(struct eltwise *elt, int bottom, bool relu)
{
    struct cpu_op *op = &elt->op;
    float *dy = op->args.tops[0]->grad.data;

#pragma omp parallel for
    for (size_t at = 0; at < elt->n; at += CPU_PIECE) {
        size_t n = cpu_piece(elt->n, at);
        if (relu) /* dy = 0 where y <= 0 */
            cpu_relu_back_span(elt->half, cpu_op_y(op), dy, 0, dy, at, n);
        for (int i = op->args.nbottoms - 1; i >= 0; i--)
            if (eltwise_writes(elt, i) && (bottom < 0 ? !eltwise_relays(elt, i) : i == bottom))
                eltwise_backward_piece(elt, i, at, n);
    }
}

static int eltwise_backward(struct cpu_op *op)
{
    struct eltwise *elt = (struct eltwise *)op;
    bool relu = op->args.relu;

    for (int i = 0; i < op->args.nbottoms; i++) {
        if (!eltwise_writes(elt, i) || !eltwise_relays(elt, i))
            continue;
        eltwise_backward_pieces(elt, i, relu);
        if (cpu_view_move(op->engine, &op->out[i]))
            return -1;
        relu = false;
    }
    eltwise_backward_pieces(elt, -1, relu);
    return 0;
}

const struct cpu_kind cpu_eltwise = {
    .size = sizeof(struct eltwise),
    .create = eltwise_create,
    .forward = eltwise_forward,
    .backward = eltwise_backward,
};
