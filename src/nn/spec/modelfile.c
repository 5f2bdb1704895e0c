/* Caffe's binary models. The trick: a walk over the file copies everything but the weights into a
 * small message of the same form, and keeps only the places of the weights. */
#include "spec/modelfile.h"

#include "spec/caffe.pb-c.h"
#include "spec/field.h"
#include "spec/stored_blob.h"
#include "spec/text_internal.h"
#include "util/error.h"
#include "util/path.h"
#include "util/file.h"
#include "util/file_kind.h"
#include "util/strbuf.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS_MOST 100000
#define BLOBS_MOST  100000              /* over all layers */
#define NET_MOST    ((size_t)256 << 20) /* bytes of the net without its weights */

/* Field numbers that matter here, for each of the three forms of a layer. */
struct layer_form {
    const ProtobufCMessageDescriptor *type;
    uint32_t name, blobs;
    uint32_t inner; /* field of an inner layer; 0: none */
    const struct layer_form *inner_form;
};

static const struct layer_form v0_form = {&caffe__v0_layer_parameter__descriptor, 1, 50, 0, NULL};
static const struct layer_form v1_form = {&caffe__v1_layer_parameter__descriptor, 4, 6, 1,
                                          &v0_form};
static const struct layer_form v2_form = {&caffe__layer_parameter__descriptor, 1, 7, 0, NULL};

enum { NET_LAYERS = 2, NET_LAYER = 100 };

struct model_file {
    struct proto *proto;
    struct stored_layers layers;
    int nblobs;
    struct strbuf net;                             /* encoded net without weights */
    char *text[MODEL_PREPARATION - PROTO_OWN + 1]; /* values of Poseidon's own fields */
};

static int add_blob(struct model_file *file, struct stored_layer *layer,
                    const struct proto_field *field)
{
    struct stored_blob *blob;

    if (file->nblobs++ == BLOBS_MOST)
        return error_set("%s: more than %d blobs", proto_path(file->proto), BLOBS_MOST);
    blob = stored_layer_add(layer);
    return blob == NULL
               ? -1
               : stored_blob_scan(file->proto, field->begin, field->begin + field->length, blob);
}

static int put_key(struct strbuf *out, uint32_t number, enum proto_type type, uint64_t length)
{
    unsigned char bytes[20];
    size_t n = proto_put_varint(bytes, (uint64_t)number << 3 | type);

    if (type == PROTO_BYTES)
        n += proto_put_varint(bytes + n, length);
    strbuf_append(out, (const char *)bytes, n);
    return strbuf_status(out);
}

/* Appends a field unchanged; leaves out fields that the schema lacks, such as those of forks. */
static int copy_field(struct model_file *file, const ProtobufCMessageDescriptor *type,
                      struct strbuf *out, const struct proto_field *field)
{
    char piece[4096];

    if (protobuf_c_message_descriptor_get_field(type, field->number) == NULL)
        return 0;
    if (field->length > NET_MOST - out->length)
        return error_set("%s: the net without its weights has more than %zu bytes",
                         proto_path(file->proto), NET_MOST);
    if (put_key(out, field->number, field->type, field->length))
        return -1;
    for (uint64_t done = 0; done < field->length;) {
        size_t n =
            field->length - done < sizeof piece ? (size_t)(field->length - done) : sizeof piece;

        if (proto_copy(file->proto, field->begin + done, piece, n))
            return -1;
        strbuf_append(out, piece, n);
        done += n;
    }
    return strbuf_status(out);
}

/* Walks one layer: notes its name and blobs, appends the rest to `out`. */
static int walk_layer(struct model_file *file, uint64_t at, uint64_t end,
                      const struct layer_form *form, struct stored_layer *layer, struct strbuf *out)
{
    struct proto_field field;
    int status = 0;

    while (at < end && status == 0) {
        if (proto_next(file->proto, &at, end, &field))
            return -1;
        if (field.number == form->blobs && field.type == PROTO_BYTES) {
            status = add_blob(file, layer, &field);
        } else if (form->inner > 0 && field.number == form->inner && field.type == PROTO_BYTES) {
            struct strbuf inside = {0};

            status = walk_layer(file, field.begin, field.begin + field.length, form->inner_form,
                                layer, &inside) ||
                     put_key(out, field.number, PROTO_BYTES, inside.length);
            strbuf_append(out, strbuf_text(&inside), inside.length);
            strbuf_free(&inside);
        } else {
            if (field.number == form->name && field.type == PROTO_BYTES)
                status = proto_take_text(file->proto, &field, NET_MOST, &layer->name);
            if (status == 0)
                status = copy_field(file, form->type, out, &field);
        }
    }
    return error_status(status || strbuf_status(out));
}

static int take_layer(struct model_file *file, const struct proto_field *field)
{
    struct stored_layer *layer;
    struct strbuf rest = {0};
    int status;

    if (file->layers.count == LAYERS_MOST)
        return error_set("%s: more than %d layers", proto_path(file->proto), LAYERS_MOST);
    layer = stored_layers_add(&file->layers, "", 0);
    status =
        layer == NULL || walk_layer(file, field->begin, field->begin + field->length,
                                    field->number == NET_LAYER ? &v2_form : &v1_form, layer, &rest);
    if (status == 0 && rest.length > NET_MOST - file->net.length)
        status = error_set("%s: the net without its weights has more than %zu bytes",
                           proto_path(file->proto), NET_MOST);
    if (status == 0)
        status = put_key(&file->net, field->number, PROTO_BYTES, rest.length);
    if (status == 0) {
        strbuf_append(&file->net, strbuf_text(&rest), rest.length);
        status = strbuf_status(&file->net);
    }
    strbuf_free(&rest);
    return status ? -1 : 0;
}

/* Returns the kind of file given instead of a model; NULL if unknown. */
static const char *other_kind(const struct model_file *file)
{
    struct proto_field first, second;
    uint64_t at = 0, bytes = proto_bytes(file->proto);
    const char *kind = file_kind(proto_path(file->proto));

    if (file_is_hdf5(proto_path(file->proto))) /* finds HDF5 behind a user block, too */
        return "an HDF5 file";
    if (kind)
        return kind;
    if (proto_is_text(file->proto))
        return "a text";
    if (path_ends(proto_path(file->proto), ".onnx"))
        return "an ONNX model, which poseidon cannot read: use the weights that it was made from";
    if (proto_next(file->proto, &at, bytes, &first) ||
        proto_next(file->proto, &at, bytes, &second) || first.number != 1 ||
        first.type != PROTO_VARINT)
        return NULL;
    return second.type == PROTO_VARINT ? "a single blob, such as a mean image" : "a solver state";
}

/* Replaces the error by one that names the file's kind, if known. status 0: no layer was found. */
static int not_a_model(const struct model_file *file, int status)
{
    char reason[1024];
    const char *kind;

    snprintf(reason, sizeof reason, "%s", status ? error_text() : "");
    kind = other_kind(file);
    if (kind != NULL)
        return error_set("%s: expected a binary model (.caffemodel), found %s%s",
                         proto_path(file->proto), kind,
                         strcmp(kind, "a solver state") == 0
                             ? ": give it to --snapshot, or give the .caffemodel that belongs to it"
                             : "");
    if (status)
        return error_set("%s", reason);
    return error_set("%s: expected a binary model (.caffemodel), found no layer in it",
                     proto_path(file->proto));
}

static int walk_net(struct model_file *file)
{
    uint64_t at = 0, end = proto_bytes(file->proto);
    struct proto_field field;
    const char *kind;
    int status = 0;

    while (at < end && status == 0) {
        status =
            proto_next(file->proto, &at, end, &field) || proto_check_field(file->proto, &field);
        if (status)
            break;
        if ((field.number == NET_LAYERS || field.number == NET_LAYER) && field.type == PROTO_BYTES)
            status = take_layer(file, &field);
        else if (field.number > PROTO_SEAL && field.number <= MODEL_PREPARATION &&
                 field.type == PROTO_BYTES)
            status = proto_take_text(file->proto, &field, NET_MOST,
                                     &file->text[field.number - PROTO_OWN]);
        else
            status = copy_field(file, &caffe__net_parameter__descriptor, &file->net, &field);
    }
    if (status == 0)
        status = proto_check_end(file->proto);
    kind = file_kind(proto_path(file->proto)); /* a Caffe2 NetDef may look like old layers */
    return status || file->layers.count == 0 || (kind && !strcmp(kind, FILE_KIND_CAFFE2))
               ? not_a_model(file, status)
               : 0;
}

int model_file_open(const char *path, struct model_file **out)
{
    struct model_file *file = calloc(1, sizeof *file);

    if (file == NULL)
        return error_memory(sizeof *file, path);
    if (proto_open(path, &file->proto) || walk_net(file)) {
        model_file_close(file);
        return -1;
    }
    *out = file;
    return 0;
}

void model_file_close(struct model_file *file)
{
    if (file == NULL)
        return;
    stored_layers_free(&file->layers);
    strbuf_free(&file->net);
    for (size_t i = 0; i < sizeof file->text / sizeof *file->text; i++)
        free(file->text[i]);
    proto_close(file->proto);
    free(file);
}

const char *model_file_text(const struct model_file *file, uint32_t field)
{
    assert(field >= PROTO_OWN && field <= MODEL_PREPARATION);
    return file->text[field - PROTO_OWN];
}

const struct stored_layer *model_file_layers(const struct model_file *file, int *count)
{
    *count = file->layers.count;
    return file->layers.layer;
}

int model_file_read(struct model_file *file, const struct stored_blob *blob, float *out)
{
    return stored_blob_read(file->proto, blob, out);
}

int model_file_net(const struct model_file *file, struct text_doc **out)
{
    const char *path = proto_path(file->proto);
    Caffe__NetParameter *net = caffe__net_parameter__unpack(
        NULL, file->net.length, (const uint8_t *)strbuf_text(&file->net));

    if (net == NULL)
        return error_set("%s: the net inside is damaged, or another program wrote it", path);
    if (message_check_enums(path, &net->base) || doc_create(path, &net->base, out)) {
        caffe__net_parameter__free_unpacked(net, NULL);
        return -1;
    }
    return 0;
}
