/* Runs a fuzz target without libFuzzer: the given files as they are, then mutations of them.
 *
 *   TARGET [--runs=N] [--seconds=S] [--seed=N] [--max=BYTES] [--keep=FILE] FILE...
 *
 * The same seed gives the same inputs. --keep: each input is in FILE while it runs, so that the one
 * that ends the program is found there. */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/fuzz/fuzz.h"
#include "util/clock.h"
#include "util/rng.h"

#include <stdbool.h>
#include <string.h>

struct input {
    uint8_t *data;
    size_t length;
};

struct driver {
    unsigned long long runs, seed;
    double seconds;
    size_t max;
    const char *keep;
    int ninputs;
    struct input *input;
    uint64_t draws; /* of the random sequence */
    struct rng rng;
};

static uint32_t below(struct driver *d, size_t n)
{
    return n ? rng_below(&d->rng, d->draws++, n > UINT32_MAX ? UINT32_MAX : (uint32_t)n) : 0;
}

static struct input load(const char *path)
{
    struct input input = {NULL, 0};
    FILE *file = fopen(path, "rb");
    long length;

    if (!file || fseek(file, 0, SEEK_END) != 0 || (length = ftell(file)) < 0) {
        fprintf(stderr, "%s: cannot be read\n", path);
        exit(2);
    }
    rewind(file);
    input.length = (size_t)length;
    input.data = malloc(input.length + 1);
    if (!input.data || fread(input.data, 1, input.length, file) != input.length)
        exit(2);
    fclose(file);
    return input;
}

/* The target gets memory of exactly the right size, so that sanitizers see the first byte too many.
 */
static void run(const struct driver *d, const uint8_t *data, size_t length)
{
    uint8_t *exact = malloc(length ? length : 1);

    if (!exact)
        exit(2);
    memcpy(exact, data, length);
    if (d->keep) {
        FILE *file = fopen(d->keep, "wb");
        if (!file || fwrite(data, 1, length, file) != length || fclose(file) != 0)
            exit(2);
    }
    LLVMFuzzerTestOneInput(exact, length);
    free(exact);
}

/* Numbers on which size computations stumble. */
static uint64_t odd_number(struct driver *d)
{
    static const uint64_t odd[] = {0,
                                   1,
                                   2,
                                   127,
                                   128,
                                   255,
                                   256,
                                   32767,
                                   32768,
                                   65535,
                                   65536,
                                   INT32_MAX,
                                   (uint64_t)INT32_MAX + 1,
                                   UINT32_MAX,
                                   (uint64_t)UINT32_MAX + 1,
                                   INT64_MAX,
                                   (uint64_t)INT64_MAX + 1,
                                   UINT64_MAX,
                                   UINT64_MAX - 1,
                                   1 << 20,
                                   1 << 28};

    return odd[below(d, sizeof odd / sizeof *odd)] + (below(d, 4) == 0 ? below(d, 16) : 0);
}

static size_t mutate_once(struct driver *d, uint8_t *data, size_t length)
{
    size_t at = below(d, length + 1), n = 1 + below(d, below(d, 4) ? 8 : 256);
    uint64_t number;

    if (at + n > length)
        n = length - at;
    switch (below(d, 8)) {
    case 0: /* a bit */
        if (at < length)
            data[at] ^= (uint8_t)(1u << below(d, 8));
        return length;
    case 1: /* a byte */
        if (at < length)
            data[at] = (uint8_t)below(d, 256);
        return length;
    case 2: /* cut out */
        memmove(data + at, data + at + n, length - at - n);
        return length - n;
    case 3: /* double */
        if (length + n > d->max)
            return length;
        memmove(data + at + n, data + at, length - at);
        return length + n;
    case 4: /* copy over */
        if (length)
            memmove(data + below(d, length - n + 1), data + at, n);
        return length;
    case 5: /* cut short */
        return below(d, 4) ? length : at;
    case 6: { /* a part of another input */
        const struct input *other = &d->input[below(d, (size_t)d->ninputs)];
        size_t from = below(d, other->length + 1);
        if (n > other->length - from)
            n = other->length - from;
        memcpy(data + at, other->data + from, at + n <= d->max ? n : 0);
        return at + n > length && at + n <= d->max ? at + n : length;
    }
    default: /* a number, in either byte order */
        number = odd_number(d);
        n = (size_t)1 << below(d, 4);
        if (at + n > length)
            return length;
        bool big = below(d, 2);
        for (size_t i = 0; i < n; i++)
            data[at + i] = (uint8_t)(number >> 8 * (big ? n - 1 - i : i));
        return length;
    }
}

static bool option(struct driver *d, const char *text)
{
    return sscanf(text, "--runs=%llu", &d->runs) == 1 ||
           sscanf(text, "--seed=%llu", &d->seed) == 1 ||
           sscanf(text, "--seconds=%lf", &d->seconds) == 1 ||
           sscanf(text, "--max=%zu", &d->max) == 1 ||
           (strncmp(text, "--keep=", 7) == 0 && (d->keep = text + 7) != NULL);
}

int main(int argc, char **argv)
{
    struct driver d = {.seed = 1, .max = 1 << 16};
    double start = clock_seconds();
    unsigned long long done;
    uint8_t *data;

    d.input = calloc((size_t)argc, sizeof *d.input);
    for (int i = 1; i < argc; i++) {
        if (strncmp(argv[i], "--", 2) != 0) {
            d.input[d.ninputs++] = load(argv[i]);
        } else if (!option(&d, argv[i])) {
            fprintf(stderr, "%s: unknown option %s\n", argv[0], argv[i]);
            return 2;
        }
    }
    if (d.ninputs == 0)
        d.input[d.ninputs++] = (struct input){calloc(1, 1), 0};
    for (int i = 0; i < d.ninputs; i++) {
        if (d.input[i].length > d.max)
            d.max = d.input[i].length;
        run(&d, d.input[i].data, d.input[i].length);
    }
    data = malloc(d.max + 1);
    d.rng = rng_make(d.seed, RNG_DUMMY, 0, 0);
    for (done = 0; done < d.runs || clock_seconds() - start < d.seconds; done++) {
        const struct input *from = &d.input[below(&d, (size_t)d.ninputs)];
        size_t length = from->length;

        memcpy(data, from->data, length);
        for (uint32_t k = 1 + below(&d, 6); k > 0; k--)
            length = mutate_once(&d, data, length);
        run(&d, data, length);
    }
    printf("%s: %d files and %llu mutations in %.1f s\n", argv[0], d.ninputs, done,
           clock_seconds() - start);
    for (int i = 0; i < d.ninputs; i++)
        free(d.input[i].data);
    free(d.input);
    free(data);
    return 0;
}
