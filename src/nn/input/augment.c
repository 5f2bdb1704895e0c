/* Random windows and random colours, by plain loops over the pixels. */
#include "input/augment.h"

#include "util/error.h"

#include <math.h>
#include <stdio.h>

/* Random draws: two for each colour, one for contrast's place, five for each try at a window. */
enum {
    DRAW_COLOR = AUGMENT_FIRST_DRAW,
    DRAW_ORDER = DRAW_COLOR + 2 * AUGMENT_COLORS, /* 9, the last before AUGMENT_FREE_DRAW */
    DRAW_WINDOW = 16,
    DRAWS_OF_WINDOW = 5,
    MOST_ATTEMPTS = 1000
};

static int expect(const char *field, double value, double least, double most)
{
    if (value >= least && value <= most)
        return 0;
    return error_set("transform_param: %s is %g; expected %g to %g", field, value, least, most);
}

static int set_window(const Caffe__RandomAspectRatioParameter *p, struct augment *a)
{
    const double tiny = 1e-4; /* least area and least side ratio that are accepted */

    if (expect("random_aspect_ratio_param.max_area_ratio", (double)p->max_area_ratio, tiny, 1) ||
        expect("random_aspect_ratio_param.min_area_ratio", (double)p->min_area_ratio, tiny,
               (double)p->max_area_ratio) ||
        expect("random_aspect_ratio_param.aspect_ratio_change", (double)p->aspect_ratio_change,
               tiny, 1) ||
        expect("random_aspect_ratio_param.max_attempt", p->max_attempt, 1, MOST_ATTEMPTS))
        return -1;
    a->area[0] = (double)p->min_area_ratio;
    a->area[1] = (double)p->max_area_ratio;
    a->change = (double)p->aspect_ratio_change;
    a->attempts = (int)p->max_attempt;
    return 0;
}

static int set_colors(const Caffe__DistortionParameter *p, int64_t channels, struct augment *a)
{
    static const char *const names[] = {"brightness", "contrast", "saturation"};
    const struct augment_range ranges[] = {
        {p->brightness_prob, -p->brightness_delta, p->brightness_delta},
        {p->contrast_prob, p->contrast_lower, p->contrast_upper},
        {p->saturation_prob, p->saturation_lower, p->saturation_upper}};
    char field[64];

    if (expect("distort_param.brightness_delta", (double)p->brightness_delta, 0, 255))
        return -1;
    for (int i = 0; i < AUGMENT_COLORS; i++) {
        const struct augment_range *r = &ranges[i];

        snprintf(field, sizeof field, "distort_param.%s_prob", names[i]);
        if (expect(field, (double)r->prob, 0, 1))
            return -1;
        if (r->prob > 0 && i != AUGMENT_BRIGHTNESS) {
            snprintf(field, sizeof field, "distort_param.%s_upper", names[i]);
            if (expect(field, (double)r->upper, 0.01, 100))
                return -1;
            snprintf(field, sizeof field, "distort_param.%s_lower", names[i]);
            if (expect(field, (double)r->lower, 0, (double)r->upper))
                return -1;
        }
        a->color[i] = *r;
    }
    if (a->color[AUGMENT_SATURATION].prob > 0 && channels != 3)
        return error_set("transform_param: distort_param.saturation_prob on images of %lld "
                         "channel%s; expected 3: blue, green, red",
                         (long long)channels, channels == 1 ? "" : "s");
    return 0;
}

int augment_create(const Caffe__TransformationParameter *param, int64_t channels,
                   struct augment *out)
{
    *out = (struct augment){.attempts = 0};
    if (param->random_aspect_ratio_param) {
        if (!param->crop_size)
            return error_set("transform_param: random_aspect_ratio_param needs crop_size, the size "
                             "that windows are resized to");
        if (param->mean_file && param->mean_file[0])
            return error_set("transform_param: random_aspect_ratio_param does not work with a mean "
                             "image ('%s'); expected mean_value, one per channel",
                             param->mean_file);
        if (set_window(param->random_aspect_ratio_param, out))
            return -1;
    }
    return param->distort_param ? set_colors(param->distort_param, channels, out) : 0;
}

bool augment_works(const struct augment *a)
{
    bool works = a->attempts > 0;

    for (int i = 0; i < AUGMENT_COLORS; i++)
        works |= a->color[i].prob > 0;
    return works;
}

/* Places a window of the given size at random inside the image. */
static struct image_box window_at(int height, int width, const struct shape *image,
                                  const struct rng *rng, uint64_t draw)
{
    uint32_t rows = (uint32_t)(image->dim[1] - height), columns = (uint32_t)(image->dim[2] - width);

    return (struct image_box){.top = (int)rng_below(rng, draw, rows + 1),
                              .left = (int)rng_below(rng, draw + 1, columns + 1),
                              .height = height,
                              .width = width};
}

struct image_box augment_window(const struct augment *a, const struct shape *image,
                                const struct rng *rng)
{
    const int height = (int)image->dim[1], width = (int)image->dim[2];
    const int shorter = height < width ? height : width;

    for (int i = 0; i < a->attempts; i++) {
        uint64_t draw = DRAW_WINDOW + (uint64_t)i * DRAWS_OF_WINDOW;
        double part = (double)rng_uniform(rng, draw), change = (double)rng_uniform(rng, draw + 1);
        double side = sqrt((a->area[0] + (a->area[1] - a->area[0]) * part) * height * width);
        bool lies = rng_below(rng, draw + 2, 2) == 1;
        int tall, wide;

        change = a->change + (1 / a->change - a->change) * change;
        tall = (int)(lies ? side / change : side * change);
        wide = (int)(lies ? side * change : side / change);
        if (tall >= 1 && tall <= height && wide >= 1 && wide <= width)
            return window_at(tall, wide, image, rng, draw + 3);
    }
    return window_at(shorter, shorter, image, rng, DRAW_WINDOW + 3);
}

/* Draws the value of a colour change, or returns `neutral` for no change. */
static float color_draw(const struct augment *a, enum augment_color color, const struct rng *rng,
                        float neutral)
{
    const struct augment_range *r = &a->color[color];
    uint64_t draw = DRAW_COLOR + 2 * (uint64_t)color;

    if (!(rng_uniform(rng, draw) < r->prob))
        return neutral;
    return r->lower + (r->upper - r->lower) * rng_uniform(rng, draw + 1);
}

static float limited(float value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

/* Multiplies HSV's saturation by `factor`; the result is at most 1. */
static void saturate(float x[3], float factor)
{
    float most = fmaxf(x[0], fmaxf(x[1], x[2])), least = fminf(x[0], fminf(x[1], x[2]));

    if ((most - least) * factor > most)
        factor = most / (most - least);
    for (int c = 0; c < 3; c++)
        x[c] = most - (most - x[c]) * factor;
}

void augment_colors(const struct augment *a, const struct rng *rng, int64_t channels, int64_t plane,
                    uint8_t *pixels)
{
    const float add = color_draw(a, AUGMENT_BRIGHTNESS, rng, 0);
    const float times = color_draw(a, AUGMENT_CONTRAST, rng, 1);
    const float saturation = color_draw(a, AUGMENT_SATURATION, rng, 1);
    const bool early = rng_below(rng, DRAW_ORDER, 2) == 1;
    const float first = early ? times : 1, last = early ? 1 : times;

    if (add == 0 && times == 1 && saturation == 1)
        return;
    for (int64_t i = 0; i < plane; i++) {
        float x[3] = {0};

        for (int64_t c = 0; c < channels && c < 3; c++)
            x[c] = limited(limited((float)pixels[c * plane + i] + add) * first);
        if (saturation != 1)
            saturate(x, saturation);
        for (int64_t c = 0; c < channels && c < 3; c++)
            pixels[c * plane + i] = (uint8_t)(limited(x[c] * last) + 0.5f);
    }
}
