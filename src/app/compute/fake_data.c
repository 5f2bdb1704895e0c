/* Makes up samples, one batch for a whole run. A sample depends only on its global number, so all
 * ranks together have the samples of one rank with their batches. */
#include "compute/fake_data.h"

#include "util/owner.h"
#include "util/rng.h"

struct fake_data {
    const struct net *net; /* borrowed */
    float **values;        /* per blob of the net, row-major; NULL: no input. Owned */
};

/* Returns true for a layer that needs made-up data; DummyData makes its own. */
static bool is_input(const struct layer *layer)
{
    return layer->i->is_data && (layer->i->from_program || layer->i->look);
}

/* Returns the scale of an image's bytes; values that are no images stay small. */
static float scale_of(const struct layer *layer)
{
    struct layer_images images;

    if (!layer->i->images)
        return 1.0f / 128;
    layer->i->images(layer, &images);
    return images.transform ? images.transform->scale : 1;
}

static int fill_top(struct owner *owner, struct fake_data *fake, const struct layer *layer, int top,
                    uint64_t seed, uint64_t first_sample)
{
    const struct shape *shape = &layer->tops[top]->value.shape;
    size_t elems = shape_elems(shape), batch = shape->naxes > 0 ? (size_t)shape->dim[0] : 1;
    size_t classes, each = elems / batch;
    bool labels = net_label_reader(fake->net, layer, top, &classes) != NULL;
    float scale = scale_of(layer), *values;

    if (OWN(owner, values, elems, "made-up data"))
        return -1;
    fake->values[net_blob_number(fake->net, layer->tops[top])] = values;
    for (size_t n = 0; n < batch; n++) {
        struct rng rng =
            rng_make(seed, RNG_DUMMY, (uint32_t)(layer->index + top), first_sample + n);

        for (size_t i = 0; i < each; i++)
            values[n * each + i] = labels ? (float)rng_below(&rng, i, (uint32_t)classes)
                                   : shape->naxes > 1
                                       ? scale * (255 * rng_uniform(&rng, i) - 127.5f)
                                       : (float)rng_below(&rng, i, 2);
    }
    return 0;
}

int fake_data_create(struct owner *owner, const struct net *net, uint64_t seed,
                     uint64_t first_sample, struct fake_data **out)
{
    struct fake_data *fake;

    if (OWN(owner, fake, 1, "made-up data") ||
        OWN(owner, fake->values, net->nblobs, "made-up data"))
        return -1;
    *out = fake;
    fake->net = net;
    for (int l = 0; l < net->nlayers; l++)
        for (int t = 0; t < net->layers[l].ntops && is_input(&net->layers[l]); t++)
            if (fill_top(owner, fake, &net->layers[l], t, seed, first_sample))
                return -1;
    return 0;
}

int fake_data_write(const struct fake_data *fake)
{
    const struct engine *engine = fake->net->engine;

    for (int i = 0; i < fake->net->nblobs; i++)
        if (fake->values[i] &&
            engine->i->write(engine->context, &fake->net->blobs[i]->value, fake->values[i]))
            return -1;
    return 0;
}

void fake_data_describe(const struct fake_data *fake, const char *title, struct strbuf *out)
{
    for (int l = 0; l < fake->net->nlayers; l++) {
        const struct layer *layer = &fake->net->layers[l];

        if (is_input(layer))
            strbuf_printf(out, "%-10s  layer '%s': made up, %s, the same for every pass\n", title,
                          layer->def->name, shape_product(&layer->tops[0]->value.shape).text);
    }
}
