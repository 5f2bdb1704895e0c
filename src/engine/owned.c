/* Memory of engines that an owner frees. */
#include "engine/engine.h"
#include "util/owner.h"

void *engine_own(const struct engine *engine, struct owner *owner, size_t bytes, const char *what)
{
    void *memory;

    return engine->i->alloc(engine->context, bytes, what, &memory) ||
                   owner_take(owner, engine->i->free, engine->context, memory)
               ? NULL
               : memory;
}

void *engine_own_host(const struct engine *engine, struct owner *owner, size_t bytes,
                      const char *what)
{
    void *memory;

    if (!engine)
        return owner_array(owner, bytes, 1, what);
    return engine->i->copies->host_alloc(engine->context, bytes, what, &memory) ||
                   owner_take(owner, engine->i->copies->host_free, engine->context, memory)
               ? NULL
               : memory;
}
