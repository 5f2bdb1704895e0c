/* What someone may have meant by a field or a value that the schema has not. */
#include "spec/suggest_field.h"

#include <stdio.h>
#include <string.h>

#include "spec/field.h"
#include "util/suggest.h"

/* Fields that public files use and that Caffe itself does not have. */
static const struct {
    const char *message; /* NULL: any */
    const char *field;
    const char *fork;
} forks[] = {
    {NULL, "quantization_param", "Ristretto"},
    {NULL, "resize_param", "SSD"},
    {"TransformationParameter", "noise_param", "SSD"},
    {"DistortionParameter", "hue_prob", "SSD"},
    {"DistortionParameter", "hue_delta", "SSD"},
    {"DistortionParameter", "random_order_prob", "SSD"},
    {"TransformationParameter", "random_resize_param", "Intel"},
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
    {"SolverParameter", "momentum_policy", "NVIDIA (NVCaffe)"},
    {"NetParameter", "eltwise_mem_sharing", "NVIDIA (NVCaffe)"},
    {"DataParameter", "cache", "NVIDIA (NVCaffe)"},
    {"DataParameter", "threads", "NVIDIA (NVCaffe)"},
    {"DataParameter", "parser_threads", "NVIDIA (NVCaffe)"},
    {NULL, "detectnet_groundtruth_param", "NVIDIA (DetectNet)"},
    {NULL, "detectnet_augmentation_param", "NVIDIA (DetectNet)"},
    {NULL, "cos_data_param", "Yahoo (CaffeOnSpark)"},
    {"LayerParameter", "source_class", "Yahoo (CaffeOnSpark)"},
    {"MemoryDataParameter", "source", "Yahoo (CaffeOnSpark)"},
    {"MemoryDataParameter", "share_in_parallel", "Yahoo (CaffeOnSpark)"},
    {NULL, "center_loss_param", "CenterLoss (face recognition)"},
    {NULL, "margin_inner_product_param", "SphereFace (face recognition)"},
    {"SolverParameter", "disabled_update", "Intel"},
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
