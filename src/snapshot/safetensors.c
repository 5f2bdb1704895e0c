/* .safetensors: eight bytes of length, a JSON object with each tensor's type, shape and place, and
 * the tensors' bytes, little-endian. The reader knows as much JSON as such a header may have. */
#include "snapshot/weights_internal.h"

#include "snapshot/snapshot_internal.h"
#include "spec/print.h"
#include "spec/read.h"
#include "util/error.h"
#include "util/file.h"
#include "util/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, HEADER_MOST = 100 << 20 };

#define METADATA "__metadata__"

/* ---- the header's text ---- */

struct header {
    const char *path;
    char *text; /* owned; NUL behind it */
    const char *at;
};

static int damaged(const struct header *h, const char *expected)
{
    return error_set("%s: damaged header at byte %td: expected %s", h->path,
                     LENGTH_BYTES + (h->at - h->text), expected);
}

/* Passes the character over, with the space before it, if it is next. */
static bool take(struct header *h, char c)
{
    h->at += strspn(h->at, " \t\r\n");
    return *h->at == c ? h->at++, true : false;
}

static int expect(struct header *h, char c)
{
    const char what[] = {'\'', c, '\'', '\0'};

    return take(h, c) ? 0 : damaged(h, what);
}

/* \uXXXX; pairs of them stand for what is beyond 16 bits. */
static int take_code(struct header *h, struct strbuf *out)
{
    unsigned code = 0, low = 0;
    int length = 0;

    if (sscanf(h->at, "%4x%n", &code, &length) != 1 || length != 4)
        return damaged(h, "four digits behind \\u");
    h->at += 4;
    if (code >> 10 == 0xD800 >> 10 && sscanf(h->at, "\\u%4x%n", &low, &length) == 1 &&
        length == 6 && low >> 10 == 0xDC00 >> 10) {
        code = 0x10000 + ((code & 0x3FF) << 10 | (low & 0x3FF));
        h->at += 6;
    }
    if (code >= 0x10000)
        strbuf_printf(out, "%c%c%c%c", 0xF0 | code >> 18, 0x80 | (code >> 12 & 63),
                      0x80 | (code >> 6 & 63), 0x80 | (code & 63));
    else if (code >= 0x800)
        strbuf_printf(out, "%c%c%c", 0xE0 | code >> 12, 0x80 | (code >> 6 & 63),
                      0x80 | (code & 63));
    else if (code >= 0x80)
        strbuf_printf(out, "%c%c", 0xC0 | code >> 6, 0x80 | (code & 63));
    else
        strbuf_putc(out, (char)code);
    return 0;
}

static int take_string(struct header *h, struct strbuf *out)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";

    strbuf_clear(out);
    if (expect(h, '"'))
        return -1;
    while (*h->at != '"') {
        const char *escape;

        if ((unsigned char)*h->at < ' ')
            return damaged(h, "the end of a string");
        if (*h->at != '\\') {
            strbuf_putc(out, *h->at++);
            continue;
        }
        h->at++;
        escape = *h->at ? strchr(escapes, *h->at) : NULL;
        if (!escape && *h->at != 'u')
            return damaged(h, "one of \"\\/bfnrtu behind a backslash");
        h->at++;
        if (escape)
            strbuf_putc(out, meant[escape - escapes]);
        else if (take_code(h, out))
            return -1;
    }
    h->at++;
    return strbuf_status(out);
}

/* "[1, 2]", of whole numbers. */
static int take_numbers(struct header *h, int most, int *n, int64_t *out)
{
    *n = 0;
    if (expect(h, '['))
        return -1;
    if (take(h, ']'))
        return 0;
    do {
        char *end;

        h->at += strspn(h->at, " \t\r\n");
        if (*n == most || *h->at < '0' || *h->at > '9')
            return damaged(h, *n == most ? "fewer numbers" : "a whole number");
        errno = 0;
        out[(*n)++] = strtoll(h->at, &end, 10);
        if (errno)
            return damaged(h, "a smaller number");
        h->at = end;
    } while (take(h, ','));
    return expect(h, ']');
}

/* ---- reading ---- */

struct reader {
    struct header header;
    FILE *file;
    uint64_t begin, bytes; /* of the tensors in the file */
    struct weights *weights;
    struct strbuf key, word, net; /* being read; the definition in the metadata */
};

struct tensor_entry {
    char type[8];
    int naxes, nplaces;
    int64_t dim[SHAPE_MAX_AXES], place[2];
};

/* "conv1.weight": layer "conv1", parameter 0. */
static int parse_name(const struct reader *r, const char *name, size_t *layer, int *number)
{
    const char *dot = strrchr(name, '.'), *end = dot ? dot + 1 : "";

    *layer = dot ? (size_t)(dot - name) : 0;
    *number = !strcmp(end, "weight")                             ? 0
              : !strcmp(end, "bias")                             ? 1
              : end[0] >= '0' && end[0] <= '9' && end[1] == '\0' ? end[0] - '0'
                                                                 : -1;
    if (*number >= 0)
        return 0;
    return error_set("%s: tensor '%s': expected a name that ends in .weight, .bias or a number: "
                     "LAYER.0 for a layer's first parameter",
                     r->header.path, name);
}

static void load_floats(float *values, const unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char *b = bytes + 4 * i;
        uint32_t bits = b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
        memcpy(&values[i], &bits, sizeof bits);
    }
}

static int read_values(struct reader *r, const char *name, const struct tensor_entry *t,
                       const struct snapshot_blob *blob)
{
    size_t elems = shape_elems(blob->shape), bytes = elems * sizeof(float);

    if (t->nplaces != 2 || t->place[0] > t->place[1] || (uint64_t)t->place[1] > r->bytes ||
        (uint64_t)(t->place[1] - t->place[0]) != bytes)
        return error_set("%s: tensor '%s' of %zu bytes has no such place in the file's %" PRIu64,
                         r->header.path, name, bytes, r->bytes);
    if (fseeko(r->file, (off_t)(r->begin + (uint64_t)t->place[0]), SEEK_SET) ||
        fread(blob->data, 1, bytes, r->file) != bytes)
        return error_set("%s: tensor '%s' cannot be read: %s", r->header.path, name,
                         errno ? strerror(errno) : "the file has become shorter");
    load_floats(blob->data, (const unsigned char *)blob->data, elems);
    return 0;
}

static int read_entry(struct reader *r, const char *name)
{
    struct header *h = &r->header;
    struct tensor_entry t = {.naxes = 0};
    struct snapshot_layer *layer;
    size_t length;
    int number;

    if (expect(h, '{'))
        return -1;
    do {
        if (take_string(h, &r->word) || expect(h, ':'))
            return -1;
        if (!strcmp(strbuf_text(&r->word), "shape")) {
            if (take_numbers(h, SHAPE_MAX_AXES, &t.naxes, t.dim))
                return -1;
        } else if (!strcmp(strbuf_text(&r->word), "data_offsets")) {
            if (take_numbers(h, 2, &t.nplaces, t.place))
                return -1;
        } else if (strcmp(strbuf_text(&r->word), "dtype")) {
            return damaged(h, "dtype, shape or data_offsets");
        } else {
            if (take_string(h, &r->word))
                return -1;
            snprintf(t.type, sizeof t.type, "%s", strbuf_text(&r->word));
        }
    } while (take(h, ','));
    if (expect(h, '}'))
        return -1;
    if (strcmp(t.type, "F32"))
        return error_set("%s: tensor '%s' is of type %s; expected F32 (in PyTorch: .float(), and "
                         "without num_batches_tracked)",
                         h->path, name, t.type);
    if (parse_name(r, name, &length, &number))
        return -1;
    layer = weights_layer(r->weights, name, length);
    if (!layer || weights_add_blob(h->path, layer, number, t.naxes, t.dim))
        return -1;
    return read_values(r, name, &t, &layer->blobs[number]);
}

static int read_metadata(struct reader *r)
{
    struct header *h = &r->header;

    if (expect(h, '{'))
        return -1;
    if (take(h, '}'))
        return 0;
    do {
        struct strbuf *value = &r->word;

        if (take_string(h, &r->word) || expect(h, ':'))
            return -1;
        bool run = !strcmp(strbuf_text(&r->word), "run");
        if (!strcmp(strbuf_text(&r->word), "net"))
            value = &r->net;
        if (take_string(h, value) ||
            (run && !r->weights->run && snapshot_copy_text(strbuf_text(value), &r->weights->run)))
            return -1;
    } while (take(h, ','));
    return expect(h, '}');
}

static int read_entries(struct reader *r)
{
    struct header *h = &r->header;

    if (expect(h, '{'))
        return -1;
    if (take(h, '}'))
        return 0;
    do {
        if (take_string(h, &r->key) || expect(h, ':') ||
            (!strcmp(strbuf_text(&r->key), METADATA) ? read_metadata(r)
                                                     : read_entry(r, strbuf_text(&r->key))))
            return -1;
    } while (take(h, ','));
    if (expect(h, '}'))
        return -1;
    h->at += strspn(h->at, " \n");
    return *h->at ? damaged(h, "the header's end") : 0;
}

/* The length of the header; 0: it is none. */
static uint64_t header_length(FILE *file, uint64_t *size)
{
    unsigned char b[LENGTH_BYTES + 1];
    uint64_t length = 0;
    off_t end;

    if (fseeko(file, 0, SEEK_END) || (end = ftello(file)) < 0 || fseeko(file, 0, SEEK_SET) ||
        fread(b, 1, sizeof b, file) != sizeof b || b[LENGTH_BYTES] != '{')
        return 0;
    for (int i = LENGTH_BYTES - 1; i >= 0; i--)
        length = length << 8 | b[i];
    *size = (uint64_t)end;
    return length;
}

bool weights_is_safetensors(const char *path)
{
    FILE *file = fopen(path, "rb");
    uint64_t size;
    bool is = file && header_length(file, &size) > 0;

    if (file)
        fclose(file);
    return is;
}

static int read_header(struct reader *r)
{
    uint64_t size = 0, length = header_length(r->file, &size);

    if (length == 0 || length > HEADER_MOST || length > size - LENGTH_BYTES)
        return error_set("%s: damaged: its header would take %" PRIu64 " bytes of %" PRIu64,
                         r->header.path, length, size);
    r->begin = LENGTH_BYTES + length;
    r->bytes = size - r->begin;
    r->header.at = r->header.text = calloc(1, (size_t)length + 1);
    if (!r->header.text)
        return error_memory(length, "a header");
    if (fseeko(r->file, LENGTH_BYTES, SEEK_SET) ||
        fread(r->header.text, 1, (size_t)length, r->file) != length)
        return error_set("%s: cannot be read: %s", r->header.path, strerror(errno));
    return 0;
}

static int read_net(struct reader *r)
{
    struct text_doc *net;

    if (r->net.length == 0)
        return 0;
    if (text_read_string(r->header.path, strbuf_text(&r->net), r->net.length,
                         &caffe__net_parameter__descriptor, &net))
        return error_context("%s: the net in its metadata", r->header.path);
    return weights_set_net(r->weights, net);
}

int weights_read_safetensors(const char *path, struct weights *weights)
{
    struct reader r = {.header = {.path = path}, .weights = weights, .file = fopen(path, "rb")};
    int status = r.file ? read_header(&r) || read_entries(&r) || read_net(&r) ? -1 : 0
                        : error_set("%s: %s", path, strerror(errno));

    if (r.file)
        fclose(r.file);
    free(r.header.text);
    strbuf_free(&r.key);
    strbuf_free(&r.word);
    strbuf_free(&r.net);
    return status;
}

/* ---- writing ---- */

/* The definition; where there is none, the names, so that no layer is lost. */
static void put_net(const struct weights *w, struct strbuf *out)
{
    if (w->net) {
        print_message(out, text_root(w->net));
        return;
    }
    for (int i = 0; i < w->nlayers; i++) {
        Caffe__LayerParameter layer = CAFFE__LAYER_PARAMETER__INIT, *layers[] = {&layer};
        Caffe__NetParameter net = CAFFE__NET_PARAMETER__INIT;

        layer.name = (char *)(uintptr_t)w->layers[i].name;
        net.n_layer = 1;
        net.layer = layers;
        print_message(out, &net.base);
    }
}

static void put_entry(struct json *json, const struct snapshot_layer *layer, int b, uint64_t *at)
{
    static const char *const ends[] = {"weight", "bias"};
    const struct shape *shape = layer->blobs[b].shape;
    struct strbuf name = {0};

    strbuf_printf(&name, "%s.", layer->name);
    if (layer->nblobs <= 2)
        strbuf_puts(&name, ends[b]);
    else
        strbuf_printf(&name, "%d", b);
    json_key(json, strbuf_text(&name));
    json_object_begin(json);
    json_put_string(json, "dtype", "F32");
    json_key(json, "shape");
    json_array_begin(json);
    for (int i = 0; i < shape->naxes; i++)
        json_int(json, shape->dim[i]);
    json_array_end(json);
    json_key(json, "data_offsets");
    json_array_begin(json);
    json_uint(json, *at);
    *at += shape_elems(shape) * sizeof(float);
    json_uint(json, *at);
    json_array_end(json);
    json_object_end(json);
    strbuf_free(&name);
}

static int compose_header(const struct weights *w, struct json *json, const char **text)
{
    struct strbuf net = {0};
    uint64_t at = 0;
    int status;

    put_net(w, &net);
    json_object_begin(json);
    json_key(json, METADATA);
    json_object_begin(json);
    json_put_string(json, "format", "pt");
    json_put_string(json, "net", strbuf_text(&net));
    if (w->run)
        json_put_string(json, "run", w->run);
    json_object_end(json);
    for (int i = 0; i < w->nlayers; i++)
        for (int b = 0; b < w->layers[i].nblobs; b++)
            if (!w->layers[i].blobs[b].shared)
                put_entry(json, &w->layers[i], b, &at);
    json_object_end(json);
    status = strbuf_status(&net) || json_text(json, text) ? -1 : 0;
    strbuf_free(&net);
    return status;
}

static void put_blob(struct file_writer *to, const struct snapshot_blob *blob)
{
    unsigned char bytes[4096];
    size_t elems = shape_elems(blob->shape);

    for (size_t done = 0, n; done < elems; done += n) {
        n = elems - done < sizeof bytes / 4 ? elems - done : sizeof bytes / 4;
        snapshot_store_floats(bytes, blob->data + done, n);
        file_writer_put(to, bytes, 4 * n);
    }
}

int weights_write_safetensors(const struct weights *w, const char *path)
{
    struct json json = {0};
    struct file_writer to = {.path = path};
    const char *text = NULL;
    size_t length, padding;
    int status = snapshot_check_names(path, w->layers, w->nlayers) ||
                         compose_header(w, &json, &text) || file_writer_open(&to, path)
                     ? -1
                     : 0;

    if (!status) {
        length = strlen(text);
        padding = -length % LENGTH_BYTES; /* values begin where they may be mapped */
        for (int i = 0; i < LENGTH_BYTES; i++)
            file_writer_put(&to, &(unsigned char){(length + padding) >> 8 * i & 255}, 1);
        file_writer_put(&to, text, length);
        file_writer_put(&to, "        ", padding);
        for (int i = 0; i < w->nlayers; i++)
            for (int b = 0; b < w->layers[i].nblobs; b++)
                if (!w->layers[i].blobs[b].shared)
                    put_blob(&to, &w->layers[i].blobs[b]);
    }
    json_free(&json);
    return file_writer_close(&to, status);
}
