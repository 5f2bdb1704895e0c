/* Functions of one element: one value in, one value out, whatever the format. */
#include "cuda_internal.h"

#include "engine/op_size.h"

struct unary {
    struct cuda_op op;
    struct kernel_unary args;
};

static int unary_create(struct cuda_op *op)
{
    struct unary *unary = (struct unary *)op;
    const struct unary_args *a = &op->args.u.unary;

    unary->args = (struct kernel_unary){.function = (int)a->function,
                                        .a = a->a,
                                        .b = a->b,
                                        .c = a->c,
                                        .from_top = op_unary_from_top(a)};
    if (!cuda_op_in_place(op))
        cuda_top_set(op->args.tops[0], cuda_tensor_format(&op->args.bottoms[0]->value));
    return 0;
}

static int unary_forward(struct cuda_op *op, const struct run *run)
{
    (void)run;
    return cuda_check(kernel_unary(op->engine->stream, cuda_bottom_type(op),
                                   &((struct unary *)op)->args, op->args.bottoms[0]->value.data,
                                   op->args.tops[0]->value.data,
                                   shape_elems(&op->args.tops[0]->value.shape)));
}

static int unary_backward(struct cuda_op *op, const struct run *run)
{
    struct unary *unary = (struct unary *)op;

    (void)run;
    if (!cuda_op_propagates(op, 0))
        return 0;
    /* a top of its own may be gone by now */
    return cuda_check(kernel_unary_back(op->engine->stream, cuda_bottom_type(op), &unary->args,
                                        cuda_op_in_place(op), op->args.bottoms[0]->value.data,
                                        op->args.tops[0]->grad.data, op->args.bottoms[0]->grad.data,
                                        shape_elems(&op->args.tops[0]->value.shape)));
}

const struct cuda_kind cuda_unary = {
    .size = sizeof(struct unary),
    .create = unary_create,
    .forward = unary_forward,
    .backward = unary_backward,
};
