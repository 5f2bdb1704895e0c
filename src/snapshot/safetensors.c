/* .safetensors: eight bytes of length, a JSON object with each tensor's type, shape and place, and
 * the tensors' bytes, little-endian. The header is read by the scanner of text files, to which
 * JSON's tokens are its own. */
#include "snapshot/snapshot_internal.h"

#include "snapshot/weights.h"
#include "spec/print.h"
#include "spec/scan.h"
#include "spec/stored_blob.h"
#include "spec/caffe.pb-c.h"
#include "spec/text.h"
#include "util/alloc.h"
#include "util/choice.h"
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
    char *text; /* owned */
    struct scanner scan;
    bool failed; /* with a message */
};

static int damaged(struct header *h, const char *expected)
{
    if (!h->failed)
        error_set("%s: damaged header at byte %td: expected %s", h->path,
                  LENGTH_BYTES + (h->scan.token.text - h->text), expected);
    h->failed = true;
    return -1;
}

static int next(struct header *h)
{
    const char *begin = h->scan.at + strspn(h->scan.at, " \t\r\n");

    return scan_next(&h->scan) ? damaged(h, *begin == '"' ? "the end of a string" : "JSON") : 0;
}

/* Passes the character over if it is next. */
static bool take(struct header *h, const char *symbol)
{
    return scan_is(&h->scan, symbol) && next(h) == 0;
}

static int expect(struct header *h, const char *symbol)
{
    const char what[] = {'\'', symbol[0], '\'', '\0'};

    return take(h, symbol) ? 0 : damaged(h, what);
}

static int take_string(struct header *h, struct strbuf *out)
{
    const struct scan_token *token = &h->scan.token;
    char *text;

    strbuf_clear(out);
    if (token->kind != SCAN_STRING)
        return damaged(h, "'\"'");
    if (ALLOC(text, token->length, "a text"))
        return -1;
    strbuf_append(out, text, scan_string(token, text));
    free(text);
    return strbuf_status(out) ? -1 : next(h);
}

/* "[1, 2]", of whole numbers. */
static int take_numbers(struct header *h, int most, int *n, int64_t *out)
{
    *n = 0;
    if (expect(h, "["))
        return -1;
    if (take(h, "]"))
        return 0;
    do {
        uint64_t value;

        if (*n == most || h->scan.token.kind != SCAN_INTEGER)
            return damaged(h, *n == most ? "fewer numbers" : "a whole number");
        if (!scan_integer(&h->scan.token, INT64_MAX, &value))
            return damaged(h, "a smaller number");
        out[(*n)++] = (int64_t)value;
        if (next(h))
            return -1;
    } while (take(h, ","));
    return expect(h, "]");
}

/* ---- reading ---- */

struct reader {
    struct header header;
    FILE *file;
    uint64_t begin, bytes; /* of the tensors in the file */
    struct stored_layers layers;
    struct strbuf key, word, net; /* being read; in the metadata */
    struct strbuf texts[SNAPSHOT_MODEL_TEXTS];
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

static struct stored_layer *find_layer(struct reader *r, const char *name, size_t length)
{
    for (int i = 0; i < r->layers.count; i++)
        if (!strncmp(r->layers.layer[i].name, name, length) && !r->layers.layer[i].name[length])
            return &r->layers.layer[i];
    return stored_layers_add(&r->layers, name, length);
}

static const char *const types[] = {
    [STORED_F32] = "F32", [STORED_F64] = "F64", [STORED_F16] = "F16", [STORED_BF16] = "BF16", NULL};

/* Notes where the tensor is, as a parameter of its layer. */
static int take_tensor(struct reader *r, const char *name, const struct tensor_entry *t)
{
    const char *path = r->header.path;
    struct stored_layer *layer;
    char what[512];
    struct shape shape;
    size_t length, bytes;
    int number, type = choice_find(types, t->type);

    if (type < 0)
        return error_set("%s: tensor '%s' is of type %s; expected F32, F64, F16 or BF16 (from "
                         "PyTorch, without num_batches_tracked)",
                         path, name, t->type);
    if (parse_name(r, name, &length, &number) || !(layer = find_layer(r, name, length)))
        return -1;
    snprintf(what, sizeof what, "%s: parameter %d of layer '%s'", path, number, layer->name);
    if (shape_set(&shape, t->naxes, t->dim, what))
        return -1;
    while (layer->nblobs <= number)
        if (!stored_layer_add(layer))
            return -1;
    if (layer->blobs[number].end > 0)
        return error_set("%s is there twice", what);
    bytes = shape_elems(&shape) * stored_bytes[type];
    if (t->nplaces != 2 || t->place[0] > t->place[1] || (uint64_t)t->place[1] > r->bytes ||
        (uint64_t)(t->place[1] - t->place[0]) != bytes)
        return error_set("%s: tensor '%s' of %zu bytes has no such place in the file's %" PRIu64,
                         path, name, bytes, r->bytes);
    layer->blobs[number] = (struct stored_blob){.begin = r->begin + (uint64_t)t->place[0],
                                                .end = r->begin + (uint64_t)t->place[1],
                                                .naxes = t->naxes,
                                                .type = (enum stored_type)type,
                                                .elems = shape_elems(&shape)};
    memcpy(layer->blobs[number].dim, t->dim, (size_t)t->naxes * sizeof *t->dim);
    return 0;
}

static int read_blob(void *context, int layer, int blob, float *out)
{
    const struct reader *r = context;
    const struct stored_blob *b = &r->layers.layer[layer].blobs[blob];
    unsigned char bytes[8 * 1024];
    size_t size = stored_bytes[b->type], elems = (size_t)b->elems, n = 0;
    bool failed = fseeko(r->file, (off_t)b->begin, SEEK_SET) != 0;

    for (size_t done = 0; done < elems && !failed; done += n) {
        n = elems - done < sizeof bytes / size ? elems - done : sizeof bytes / size;
        failed = fread(bytes, size, n, r->file) != n;
        if (!failed)
            stored_values_load(b->type, bytes, n, out + done);
    }
    return !failed ? 0
                   : error_set("%s: parameter %d of layer '%s' cannot be read: %s", r->header.path,
                               blob, r->layers.layer[layer].name,
                               errno ? strerror(errno) : "the file has become shorter");
}

/* An object; `member` is called at the value of each key. */
static int take_object(struct reader *r, struct strbuf *key,
                       int (*member)(struct reader *r, const char *key, void *to), void *to)
{
    struct header *h = &r->header;

    if (expect(h, "{"))
        return -1;
    if (take(h, "}"))
        return 0;
    do
        if (take_string(h, key) || expect(h, ":") || member(r, strbuf_text(key), to))
            return -1;
    while (take(h, ","));
    return expect(h, "}");
}

static int take_figure(struct reader *r, const char *key, void *to)
{
    struct tensor_entry *t = to;

    if (!strcmp(key, "shape"))
        return take_numbers(&r->header, SHAPE_MAX_AXES, &t->naxes, t->dim);
    if (!strcmp(key, "data_offsets"))
        return take_numbers(&r->header, 2, &t->nplaces, t->place);
    if (strcmp(key, "dtype"))
        return damaged(&r->header, "dtype, shape or data_offsets");
    if (take_string(&r->header, &r->word))
        return -1;
    snprintf(t->type, sizeof t->type, "%s", strbuf_text(&r->word));
    return 0;
}

static int take_metadata(struct reader *r, const char *key, void *unused)
{
    struct strbuf *to = !strcmp(key, "net") ? &r->net : &r->word;

    (void)unused;
    for (int i = 0; i < SNAPSHOT_MODEL_TEXTS; i++)
        if (!strcmp(key, snapshot_texts[i].name))
            to = &r->texts[i];
    return take_string(&r->header, to);
}

static int take_entry(struct reader *r, const char *name, void *unused)
{
    struct tensor_entry t = {.naxes = 0};

    if (!strcmp(name, METADATA))
        return take_object(r, &r->word, take_metadata, unused);
    if (take_object(r, &r->word, take_figure, &t))
        return -1;
    return take_tensor(r, name, &t);
}

static int read_entries(struct reader *r)
{
    if (take_object(r, &r->key, take_entry, NULL))
        return -1;
    return r->header.scan.token.kind == SCAN_END ? 0 : damaged(&r->header, "the header's end");
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

bool snapshot_is_safetensors(const char *path)
{
    FILE *file = file_open_stream(path);
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
    if (ALLOC(r->header.text, length + 1, "a header"))
        return -1;
    if (fseeko(r->file, LENGTH_BYTES, SEEK_SET) ||
        fread(r->header.text, 1, (size_t)length, r->file) != length)
        return error_set("%s: cannot be read: %s", r->header.path, strerror(errno));
    (void)scan_start(&r->header.scan, r->header.path, r->header.text, (size_t)length,
                     &(bool){false}); /* it begins with a brace */
    r->header.scan.json = true;
    return 0;
}

static int read_net(void *context, struct text_doc **out)
{
    const struct reader *r = context;

    *out = NULL;
    if (r->net.length > 0 && text_read_string(r->header.path, strbuf_text(&r->net), r->net.length,
                                              &caffe__net_parameter__descriptor, out))
        return error_context("%s: the net in its metadata", r->header.path);
    return 0;
}

static void close_reader(void *context)
{
    struct reader *r = context;

    if (r->file)
        fclose(r->file);
    free(r->header.text);
    strbuf_free(&r->key);
    strbuf_free(&r->word);
    strbuf_free(&r->net);
    for (int i = 0; i < SNAPSHOT_MODEL_TEXTS; i++)
        strbuf_free(&r->texts[i]);
    stored_layers_free(&r->layers);
    free(r);
}

int snapshot_open_safetensors(const char *path, struct snapshot_source *out)
{
    struct reader *r = alloc_array(1, sizeof *r, path);

    if (!r)
        return -1;
    r->header.path = path;
    r->file = fopen(path, "rb");
    *out = (struct snapshot_source){
        .path = path, .context = r, .read = read_blob, .net = read_net, .close = close_reader};
    if (!r->file)
        return error_set("%s: %s", path, strerror(errno));
    if (read_header(r) || read_entries(r))
        return -1;
    out->layers = r->layers.layer;
    out->nlayers = r->layers.count;
    for (int i = 0; i < SNAPSHOT_MODEL_TEXTS; i++)
        if (r->texts[i].length > 0 &&
            snapshot_copy_text(strbuf_text(&r->texts[i]), snapshot_text_in(&out->owner, i)))
            return -1;
    return 0;
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

/* place: where the values before it end, and, behind it, its own. */
static void put_entry(struct json *json, const struct snapshot_layer *layer, int b,
                      int64_t place[2])
{
    static const char *const ends[] = {"weight", "bias"};
    const struct shape *shape = layer->blobs[b].shape;
    struct strbuf name = {0};

    strbuf_printf(&name, "%s.", layer->name);
    if (layer->nblobs <= 2)
        strbuf_puts(&name, ends[b]);
    else
        strbuf_printf(&name, "%d", b);
    json_put_object(json, strbuf_text(&name));
    json_put_string(json, "dtype", "F32");
    json_put_ints(json, "shape", shape->naxes, shape->dim);
    place[1] += (int64_t)(shape_elems(shape) * sizeof(float));
    json_put_ints(json, "data_offsets", 2, place);
    place[0] = place[1];
    json_object_end(json);
    strbuf_free(&name);
}

static int compose_header(const struct weights *w, struct json *json, const char **text)
{
    struct strbuf net = {0};
    int64_t place[2] = {0, 0};
    int status;

    put_net(w, &net);
    json_object_begin(json);
    json_put_object(json, METADATA);
    json_put_string(json, "format", "pt");
    json_put_string(json, "net", strbuf_text(&net));
    for (int i = 0; i < SNAPSHOT_MODEL_TEXTS; i++)
        if (snapshot_text_of(&w->owner, i))
            json_put_string(json, snapshot_texts[i].name, snapshot_text_of(&w->owner, i));
    json_object_end(json);
    for (int i = 0; i < w->nlayers; i++)
        for (int b = 0; b < w->layers[i].nblobs; b++)
            if (!w->layers[i].blobs[b].shared)
                put_entry(json, &w->layers[i], b, place);
    json_object_end(json);
    status = error_status(strbuf_status(&net) || json_text(json, text));
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
    int status = error_status(snapshot_check_names(path, w->layers, w->nlayers) ||
                              compose_header(w, &json, &text) || file_writer_open(&to, path));

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
