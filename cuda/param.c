/* Parameters as the libraries read them: of the engine's type, in the layout and at the alignment
 * that their kernels were chosen for. A net's parameters lie one behind the other, so that a bias
 * begins wherever the weight before it ends. */
#include "cuda_internal.h"

int cuda_param_create(struct cuda_op *op, struct param *param, bool at_ends, const char *what,
                      struct cuda_param *out)
{
    size_t elems = shape_elems(&param->shape);

    out->param = param;
    if (out->columns == 0) {
        out->outer = out->rows = 1;
        out->columns = (int)elems;
    }
    if (op->engine->type == CUDA_F32 && !at_ends && !cuda_param_is_turned(out))
        return 0;
    out->copy = cuda_op_alloc(op, elems * cuda_type_bytes(op->engine->type), what);
    return out->copy ? 0 : -1;
}

/* The net places its parameters after its ops were made: where they lie is seen when they are read.
 */
static bool param_is_copied(const struct cuda_engine *engine, const struct cuda_param *p)
{
    return p->copy && (engine->type != CUDA_F32 || cuda_param_is_turned(p) ||
                       (uintptr_t)p->param->value % CUDA_ALIGNMENT);
}

int cuda_param_load(struct cuda_engine *engine, struct cuda_param *p)
{
    if (!p->param || !param_is_copied(engine, p) || (p->fresh && p->version == p->param->version))
        return 0;
    p->version = p->param->version;
    p->fresh = true;
    return cuda_check(kernel_transpose(engine->stream, CUDA_F32, p->param->value, engine->type,
                                       p->copy, p->outer, p->rows, p->columns, false));
}

const void *cuda_param_data(const struct cuda_engine *engine, const struct cuda_param *p)
{
    if (!p->param)
        return NULL;
    return param_is_copied(engine, p) ? p->copy : p->param->value;
}
