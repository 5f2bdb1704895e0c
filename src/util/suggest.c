/* What someone may have meant. */
#include "util/suggest.h"

#include "spec/field.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MOST 63 /* longest word that is compared */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

int suggest_distance(const char *a, const char *b)
{
    size_t na = strlen(a), nb = strlen(b);
    int rows[3][MOST + 2];

    if (na > MOST || nb > MOST)
        return MOST + 1;
    for (size_t j = 0; j <= nb; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *above2 = rows[(i + 1) % 3];

        row[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int differ = lower(a[i - 1]) != lower(b[j - 1]);

            row[j] = least(above[j - 1] + differ, least(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]))
                row[j] = least(row[j], above2[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}

struct suggest suggest_start(const char *word)
{
    return (struct suggest){.word = word, .distance = MOST + 1};
}

/* How many letters may be wrong: a third of the longer word, but for the ending of all messages'
 * fields, and at least one; not all. */
static int allowed(const char *a, const char *b)
{
    static const char ending[] = "_param";
    const int tail = (int)sizeof ending - 1;
    int na = (int)strlen(a), nb = (int)strlen(b), longer = na > nb ? na : nb;
    int both = na > tail && nb > tail && strcmp(a + na - tail, ending) == 0 &&
               strcmp(b + nb - tail, ending) == 0;
    int third = (longer - (both ? tail : 0)) / 3;

    return third > 0 ? third : longer > 1;
}

/* A known word with more than a letter before it is another one (Unpooling), and so it is with more
 * behind it (LRN_MAP, Convolution3D) unless that reads on for a letter or two (BatchNormal). */
static bool extends(const char *word, const char *known)
{
    size_t n = strlen(known);

    for (const char *at = word; strlen(at) >= n; at++)
        if (strncasecmp(at, known, n) == 0)
            return at - word > 1 || strlen(at + n) > 2 ||
                   (strlen(at + n) == 2 && !(at[n] >= 'a' && at[n] <= 'z'));
    return false;
}

void suggest_offer(struct suggest *suggest, const char *candidate)
{
    int distance = suggest_distance(suggest->word, candidate);

    if (distance < suggest->distance && distance <= allowed(suggest->word, candidate) &&
        !extends(suggest->word, candidate)) {
        suggest->distance = distance;
        suggest->nearest = candidate;
    }
}

/* Fields that public files use and that Caffe itself does not have. */
static const struct {
    const char *message; /* NULL: any */
    const char *field;
    const char *fork;
} forks[] = {
    {NULL, "quantization_param", "Ristretto"},
    {NULL, "resize_param", "SSD"},
    {"TransformationParameter", "noise_param", "SSD"},
    {"TransformationParameter", "distort_param", "SSD"},
    {"TransformationParameter", "expand_param", "SSD"},
    {"TransformationParameter", "emit_constraint", "SSD"},
    {NULL, "annotated_data_param", "SSD"},
    {NULL, "multibox_loss_param", "SSD"},
    {NULL, "prior_box_param", "SSD"},
    {NULL, "detection_output_param", "SSD"},
    {NULL, "permute_param", "SSD"},
    {NULL, "norm_param", "SSD"},
    {"SolverParameter", "eval_type", "SSD"},
    {"SolverParameter", "ap_version", "SSD"},
    {"SolverParameter", "show_per_class_result", "SSD"},
    {"SolverParameter", "plateau_winsize", "SSD"},
    {NULL, "interp_param", "DeepLab and PSPNet"},
    {"ImageDataParameter", "label_type", "DeepLab"},
    {"ConvolutionParameter", "hole", "DeepLab"},
    {"ConvolutionParameter", "hole_h", "DeepLab"},
    {"ConvolutionParameter", "hole_w", "DeepLab"},
    {"V1LayerParameter", "strict_dim", "DeepLab"},
    {NULL, "mat_write_param", "DeepLab"},
    {NULL, "seg_accuracy_param", "DeepLab"},
    {NULL, "bn_param", "PSPNet and SegNet"},
    {NULL, "upsample_param", "SegNet"},
    {NULL, "dense_image_data_param", "SegNet"},
    {NULL, "roi_pooling_param", "Fast R-CNN"},
    {NULL, "smooth_l1_loss_param", "Fast R-CNN"},
    {"DropoutParameter", "scale_train", "Fast R-CNN"},
    {NULL, "psroi_pooling_param", "R-FCN"},
    {NULL, "box_annotator_ohem_param", "R-FCN"},
    {"ConvolutionParameter", "kernel_depth", "C3D"},
    {"PoolingParameter", "kernel_depth", "C3D"},
    {NULL, "correlation_param", "FlowNet"},
    {NULL, "resample_param", "FlowNet"},
    {NULL, "augmentation_param", "FlowNet"},
    {NULL, "multi_stage_meanfield_param", "CRF as RNN"},
    {NULL, "cpm_transform_param", "OpenPose"},
    {"NetParameter", "default_forward_type", "NVIDIA (NVCaffe)"},
    {"NetParameter", "default_backward_type", "NVIDIA (NVCaffe)"},
    {"BatchNormParameter", "scale_bias", "NVIDIA (NVCaffe)"},
    {"BatchNormParameter", "scale_filler", "NVIDIA (NVCaffe)"},
    {"BatchNormParameter", "bias_filler", "NVIDIA (NVCaffe)"},
    {"SolverParameter", "larc", "NVIDIA (NVCaffe)"},
    {"SolverParameter", "larc_policy", "NVIDIA (NVCaffe)"},
    {"SolverParameter", "larc_eta", "NVIDIA (NVCaffe)"},
    {"SolverParameter", "warmup_iter", "Intel"},
    {"SolverParameter", "warmup_start_lr", "Intel"},
    {"DataParameter", "shuffle", "Intel"},
};

static const char *fork_of(const ProtobufCMessageDescriptor *message, const char *name)
{
    for (size_t i = 0; i < sizeof forks / sizeof *forks; i++)
        if (strcmp(forks[i].field, name) == 0 &&
            (forks[i].message == NULL || strcmp(forks[i].message, message->short_name) == 0))
            return forks[i].fork;
    return NULL;
}

/* Fields of this message that are messages and have such a field themselves; the first few. */
static int list_homes(const ProtobufCMessageDescriptor *message, const char *name, char *out,
                      size_t bytes)
{
    size_t used = 0;
    int found = 0;

    for (unsigned i = 0; i < message->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->fields[i];

        if (field->type != PROTOBUF_C_TYPE_MESSAGE ||
            message_find_field(field->descriptor, name) == NULL)
            continue;
        if (++found > 3) {
            snprintf(out + used, bytes - used, " ...");
            break;
        }
        used += (size_t)snprintf(out + used, bytes - used, "%s%s { }", found > 1 ? ", " : "",
                                 field->name);
        if (used >= bytes)
            break;
    }
    return found;
}

/* A field that begins a block, such as the next layer, cannot have been meant for this message. */
static bool opens_message(const ProtobufCMessageDescriptor *outer, const char *name)
{
    const ProtobufCFieldDescriptor *field = message_find_field(outer, name);

    return field != NULL && field->type == PROTOBUF_C_TYPE_MESSAGE;
}

void suggest_field(const ProtobufCMessageDescriptor *message,
                   const ProtobufCMessageDescriptor *outer, const char *name, char *out,
                   size_t bytes)
{
    const char *fork = fork_of(message, name);
    struct suggest near = suggest_start(name);
    char homes[256] = "";

    for (unsigned i = 0; i < message->n_fields; i++)
        suggest_offer(&near, message->fields[i].name);
    out[0] = '\0';
    if (fork != NULL)
        snprintf(out, bytes, "; it comes from the Caffe fork of %s%s%s%s", fork,
                 near.nearest != NULL ? " (nearest name here: \"" : "",
                 near.nearest != NULL ? near.nearest : "", near.nearest != NULL ? "\")" : "");
    else if (outer != NULL && opens_message(outer, name))
        snprintf(out, bytes, "; it is a field of \"%s\": is a \"}\" missing before it?",
                 outer->name);
    else if (near.nearest != NULL && near.distance <= 2 && 2 * (size_t)near.distance < strlen(name))
        snprintf(out, bytes, "; did you mean \"%s\"?", near.nearest);
    else if (list_homes(message, name, homes, sizeof homes) > 0)
        snprintf(out, bytes, "; it belongs into %s", homes);
    else if (outer != NULL && message_find_field(outer, name) != NULL)
        snprintf(out, bytes, "; it is a field of \"%s\": is a \"}\" missing before it?",
                 outer->name);
    else if (near.nearest != NULL)
        snprintf(out, bytes, "; the nearest name is \"%s\"", near.nearest);
}

void suggest_value(const ProtobufCEnumDescriptor *descriptor, const char *name, char *out,
                   size_t bytes)
{
    struct suggest near = suggest_start(name);
    size_t used = 0;

    out[0] = '\0';
    if (descriptor->n_values <= 8) {
        for (unsigned i = 0; i < descriptor->n_values && used < bytes; i++)
            used += (size_t)snprintf(out + used, bytes - used, "%s%s",
                                     i == 0                         ? "; expected "
                                     : i + 1 < descriptor->n_values ? ", "
                                                                    : " or ",
                                     descriptor->values[i].name);
        return;
    }
    for (unsigned i = 0; i < descriptor->n_values; i++)
        suggest_offer(&near, descriptor->values[i].name);
    if (near.nearest != NULL)
        snprintf(out, bytes, "; did you mean %s?", near.nearest);
}
