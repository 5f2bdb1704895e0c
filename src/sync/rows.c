/* Rows of factors between messages and the engine's memory. */
#include "sync/gradient_internal.h"

int rows_open(struct sync *sync, size_t elems, size_t all, float *shared, bool straight,
              struct rows_place *out)
{
    static const char what[] = "sufficient factors";
    const struct engine *engine = sync->model.engine;
    const struct gradient *g = sync->gradient;
    void *memory = NULL;

    *out = (struct rows_place){.rows = shared, .owned = !shared};
    out->straight = straight && gradient_is_direct(sync);
    if (out->straight) {
        if (engine->i->alloc(engine->context, all * sizeof(float), what, &memory))
            return -1;
        out->rows = memory;
    } else if (!shared && !(out->rows = gradient_alloc(sync, all, what))) {
        return -1;
    }
    if (out->straight || elems == 0 || !g->own_memory)
        return 0; /* the engine, if it computes with them, reaches each slot */
    if (engine->i->alloc(engine->context, elems * sizeof(float), what, &memory))
        return -1;
    out->engine = memory;
    return 0;
}

void rows_close(struct sync *sync, struct rows_place *place)
{
    const struct engine *engine = sync->model.engine;

    if (place->straight)
        engine->i->free(engine->context, place->rows);
    else if (place->owned)
        gradient_free(sync, place->rows);
    if (place->engine)
        engine->i->free(engine->context, place->engine);
    *place = (struct rows_place){.rows = NULL};
}

int rows_stage(struct sync *sync, int bucket, const struct rows_place *place, float *to,
               size_t stride, const float *from, size_t width, size_t count)
{
    struct gradient *g = sync->gradient;
    struct engine_rows rows = {.host = to,
                               .host_stride = stride,
                               .memory = (float *)(uintptr_t)from,
                               .stride = width,
                               .width = width,
                               .rows = count};

    return (place->straight ? g->copies->copy : g->copies->fetch)(g->context, &rows,
                                                                  g->buckets[bucket].down);
}

int rows_store(struct sync *sync, int bucket, const struct rows_place *place, const float *slot,
               size_t elems)
{
    struct gradient *g = sync->gradient;
    struct engine_rows rows = {.host = (float *)(uintptr_t)slot,
                               .host_stride = elems,
                               .memory = place->engine,
                               .stride = elems,
                               .width = elems,
                               .rows = 1};

    return place->engine ? g->copies->store(g->context, &rows, g->buckets[bucket].up) : 0;
}
