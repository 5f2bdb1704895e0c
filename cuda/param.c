/* Parameters as the libraries read them: in the engine's type, and in the layout and alignment that
 * kernels were chosen for. A net's parameters lie one after another, so a bias may begin at any
 * address, where its weight ends. */
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

/* Returns true if the copy is in use. The net places parameters after it creates operators, so
 * their addresses are known only when they are read. */
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
