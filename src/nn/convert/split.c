/* Divides images into sets for training and for tests. */
#include "convert/split.h"

#include <stdlib.h>
#include <string.h>

#include "input/shuffle.h"
#include "util/error.h"
#include "util/path.h"
#include "util/strbuf.h"

char *split_name(const char *path, const char *part)
{
    static const char *const ends[] = {".h5", ".hdf5", "_lmdb", ".lmdb", NULL};
    size_t stem = strlen(path);
    struct strbuf name = {0};

    for (int i = 0; ends[i]; i++)
        if (path_ends(path, ends[i]))
            stem = strlen(path) - strlen(ends[i]);
    strbuf_printf(&name, "%.*s-%s%s", (int)stem, path, part, path + stem);
    return strbuf_take(&name);
}

struct labelled {
    int32_t label;
    uint64_t number;
};

static int by_label(const void *a, const void *b)
{
    const struct labelled *x = a, *y = b;

    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* Draws the test images among the n images of one class. */
static int draw_class(const struct list *list, const struct labelled *image, uint64_t n,
                      double share, const struct rng *rng, bool *test)
{
    uint64_t wanted = (uint64_t)(share * (double)n + 0.5);

    if (n < 2)
        return error_set("--split: class %d has a single image, %s; expected at least one for "
                         "training and one for testing",
                         image->label, list_path(list, image->number));
    wanted = wanted < 1 ? 1 : wanted > n - 1 ? n - 1 : wanted;
    for (uint64_t k = 0; k < wanted; k++)
        test[image[order_shuffled(rng, k, n)].number] = true;
    return 0;
}

int split_draw(const struct list *list, double share, const struct rng *rng, bool **out)
{
    struct labelled *image = malloc(list->count * sizeof *image);
    bool *test = calloc(list->count, sizeof *test);
    int status = image && test ? 0 : error_memory(list->count * sizeof *image, "a split");

    for (uint64_t n = 0; n < list->count && !status; n++)
        image[n] = (struct labelled){.label = list->label[n], .number = n};
    if (!status)
        qsort(image, list->count, sizeof *image, by_label);
    for (uint64_t begin = 0, end; begin < list->count && !status; begin = end) {
        for (end = begin; end < list->count && image[end].label == image[begin].label;)
            end++;
        status = draw_class(list, image + begin, end - begin, share, rng, test);
    }
    free(image);
    if (status) {
        free(test);
        return -1;
    }
    *out = test;
    return 0;
}
