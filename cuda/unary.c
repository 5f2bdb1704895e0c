/* Functions of one element: one value in, one value out, in any format. */
#include "cuda_internal.h"

#include "engine/op_size.h"

static int unary_run(struct cuda_op *op, bool back, const void *from, void *to)
{
    const struct unary_args *a = &op->args.u.unary;
    const struct kernel_unary args = {.function = (int)a->function,
                                      .a = a->a,
                                      .b = a->b,
                                      .c = a->c,
                                      .from_top = op_unary_from_top(a)};
    enum cuda_type type = cuda_bottom_type(op);
    cudaStream_t stream = op->engine->stream;
    size_t n = shape_elems(&op->args.tops[0]->value.shape);

    /* backward reads x: a top that is not in place may be gone by then */
    return cuda_check(back ? kernel_unary_back(stream, type, &args, cuda_op_in_place(op),
                                               cuda_op_x(op, 0), from, to, n)
                           : kernel_unary(stream, type, &args, from, to, n));
}

const struct cuda_kind cuda_unary = {.blobs = CUDA_AS_BOTTOM, .run = unary_run};
