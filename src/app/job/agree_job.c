/* Lists what must agree. Between ranks may differ: paths of files, the device, and what rank 0
 * alone uses (weights, names of snapshots). Between starts may differ, too: length of training,
 * display, tests, snapshots, and the workers' shares of samples. */
#include "job/agree_job.h"

#include "spec/caffe.pb-c.h"
#include "spec/field.h"
#include "spec/print.h"
#include "util/error.h"
#include "util/suggest.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Solver fields that may differ between ranks or starts. Nets are compared separately. */
#define SOLVER_OF_RANKS                                                                            \
    "net net_param train_net train_net_param test_net test_net_param snapshot_prefix weights "     \
    "device_id device_list solver_mode"
#define SOLVER_OF_STARTS                                                                           \
    SOLVER_OF_RANKS " test_state test_iter test_interval test_compute_loss test_initialization "   \
                    "display average_loss debug_info snapshot snapshot_diff snapshot_format "      \
                    "snapshot_after_train max_iter iter_size random_seed"

/* Net fields that may differ: each node may have the files on its own disk. */
#define NET_OF_RANKS  "source mean_file meanfile root_folder file_name shared_file_system"
#define NET_OF_STARTS NET_OF_RANKS " batch_size debug_info prefetch"

/* ---- the fields of a protobuf message ---- */

static void put_message(struct strbuf *list, const char *path, const ProtobufCMessage *message,
                        const char *except);

/* Writes the path of a layer's fields, which holds the layer's name. Control characters become '?',
 * since a tab or newline would end the path. */
static void name_layer(struct strbuf *out, const char *path, const Caffe__LayerParameter *layer)
{
    strbuf_clear(out);
    strbuf_printf(out, "%slayer '%s' ", path, layer->name ? layer->name : "");
    for (char *c = out->failed ? NULL : out->data; c && *c; c++)
        if ((unsigned char)*c < ' ')
            *c = '?';
}

static void put_inner(struct strbuf *list, const char *path, const ProtobufCFieldDescriptor *field,
                      size_t index, const ProtobufCMessage *inner, const char *except)
{
    const Caffe__LayerParameter *layer = (const Caffe__LayerParameter *)inner;
    struct strbuf name = {.data = NULL};

    strbuf_printf(&name, field->label == PROTOBUF_C_LABEL_REPEATED ? "%s%s[%zu]" : "%s%s", path,
                  field->name, index);
    if (inner->descriptor == &caffe__layer_parameter__descriptor) {
        /* names the layer first: ranks without it would seem to differ in each of its fields */
        agreement_put(list, strbuf_text(&name), "layer '%s'", layer->name ? layer->name : "");
        name_layer(&name, path, layer);
    } else {
        strbuf_putc(&name, '.');
    }
    put_message(list, strbuf_text(&name), inner, except);
    list->failed |= name.failed;
    strbuf_free(&name);
}

/* Appends every field that is set in the message or, at any depth, in the messages inside, except
 * the names in `except` (separated by blanks). Names begin with `path`, inside a layer with "layer
 * 'NAME' ". */
static void put_message(struct strbuf *list, const char *path, const ProtobufCMessage *message,
                        const char *except)
{
    for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
        size_t count = suggest_lists(except, field->name) ? 0 : field_count(message, field);
        bool whole = field->type == PROTOBUF_C_TYPE_MESSAGE;

        if (count > 0 && !whole)
            strbuf_printf(list, "%s%s\t", path, field->name);
        for (size_t k = 0; k < count; k++) {
            const void *value = field_at(message, field, k);

            if (whole) {
                put_inner(list, path, field, k, *(ProtobufCMessage *const *)value, except);
                continue;
            }
            print_value(list, field, value);
            strbuf_puts(list, k + 1 < count ? ", " : "\n");
        }
    }
}

/* ---- files and data of a job ---- */

void agree_job_put_files(const struct job *job, struct strbuf *list)
{
    const struct solver_nets *nets = &job->defs;
    char prefix[32];

    /* ranks that add up gradients on a node need the same engine; other ranks may have different
     * engines, if all engines compute or none does */
    agreement_put(list, "--engine", "%s",
                  job->blank || job->options->exchange.hierarchy != HIERARCHY_OFF
                      ? job->options->engine
                      : "one that computes");
    put_message(list, "", &job->solver->base, SOLVER_OF_RANKS);
    put_message(list, "net: ", &nets->train->param->base, NET_OF_RANKS);
    for (int i = 0; i < nets->ntests; i++) {
        snprintf(prefix, sizeof prefix, "test net #%d: ", i);
        put_message(list, prefix, &nets->tests[i]->param->base, NET_OF_RANKS);
    }
}

/* Appends the records that a data layer reads, unless each rank has a source for itself. */
static int put_data(struct strbuf *list, const char *net, const struct layer *layer)
{
    struct layer_data_mark mark;
    char name[256];

    if (!layer->i->mark)
        return 0;
    if (layer->i->mark(layer, &mark))
        return error_context("layer '%s'", layer->def->name);
    if (!mark.known || mark.own)
        return 0;
#define PUT(what, ...)                                                                             \
    do {                                                                                           \
        snprintf(name, sizeof name, "%sdata of layer '%.100s': " what, net, layer->def->name);     \
        agreement_put(list, name, __VA_ARGS__);                                                    \
    } while (0)
    PUT("records", "%" PRIu64, mark.nrecords);
    PUT("digest of the first record", "%.16s", mark.first);
    PUT("digest of the last record", "%.16s", mark.last);
    if (mark.mean[0])
        PUT("digest of the mean", "%.16s", mark.mean);
#undef PUT
    return 0;
}

int agree_job_put_data(struct strbuf *list, const char *name, const struct net *net)
{
    for (int l = 0; l < net->nlayers; l++)
        if (put_data(list, name, &net->layers[l]))
            return -1;
    return 0;
}

int agree_job_describe(const struct job *job, const struct net *net, struct strbuf *about,
                       char digest[SHA256_HEX])
{
    struct sha256 hash;

    put_message(about, "", &job->solver->base, SOLVER_OF_STARTS);
    agreement_put(about, "random_seed", "%" PRIu64, job->seed);
    if (policy_follows_end(&job->policy))
        agreement_put(about, "max_iter", "%d", job->max_iter);
    if (job->options->reproducible)
        agreement_put(about, "--reproducible", "%d", job->batch);
    strbuf_puts(about, job->options->of_run);
    if (job->options->computing.math == MATH_BF16) /* modes other than bf16 may differ */
        agreement_put(about, "--math", "bf16");
    if (job->policy.type == POLICY_PLATEAU)
        agreement_put(about, "average_loss", "%d", job->solver->average_loss);
    put_message(about, "net: ", &job->defs.train->param->base, NET_OF_STARTS);
    if (agree_job_put_data(about, "", net) || strbuf_status(about))
        return -1;
    sha256_init(&hash);
    sha256_update(&hash, about->data, about->length);
    sha256_final_hex(&hash, digest);
    return 0;
}
