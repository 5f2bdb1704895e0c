/* Parameters as the libraries read them: of the engine's type, at the alignment that their kernels
 * were chosen for. A net's parameters lie one behind the other, so that a bias begins wherever the
 * weight before it ends. */
#include "cuda_internal.h"

int cuda_param_create(const struct cuda_engine *engine, struct param *param, bool at_ends,
                      const char *what, struct cuda_param *out)
{
    size_t elems = shape_elems(&param->shape);

    *out = (struct cuda_param){.param = param, .elems = elems};
    if (engine->type == CUDA_F32 && !at_ends)
        return 0;
    return cuda_alloc(elems * cuda_type_bytes(engine->type), what, &out->copy);
}

/* The net places its parameters after its ops were made: where they lie is seen when they are read.
 */
static bool param_is_copied(const struct cuda_engine *engine, const struct cuda_param *p)
{
    return p->copy && (engine->type != CUDA_F32 || (uintptr_t)p->param->value % CUDA_ALIGNMENT);
}

int cuda_param_load(struct cuda_engine *engine, struct cuda_param *p)
{
    if (!p->param || !param_is_copied(engine, p) || (p->fresh && p->version == p->param->version))
        return 0;
    p->version = p->param->version;
    p->fresh = true;
    return cuda_check(kernel_transpose(engine->stream, CUDA_F32, p->param->value, engine->type,
                                       p->copy, 1, 1, (int)p->elems, false));
}

const void *cuda_param_data(const struct cuda_engine *engine, const struct cuda_param *p)
{
    if (!p->param)
        return NULL;
    return param_is_copied(engine, p) ? p->copy : p->param->value;
}

void cuda_param_destroy(struct cuda_param *p)
{
    cuda_free(p->copy);
    p->copy = NULL;
}
