/* What someone may have meant by a field or a value that the schema has not. */
#include "spec/suggest_field.h"

#include <stdio.h>
#include <string.h>

#include "spec/field.h"
#include "util/strbuf.h"
#include "util/suggest.h"

/* Fields that public files use and that Caffe itself does not have. */
static const struct {
    const char *name,
        *fields; /* with blanks between them; MESSAGE.FIELD where only one message has it */
} forks[] = {
    {"Ristretto", "quantization_param"},
    {"SSD", "resize_param TransformationParameter.noise_param "
            "DistortionParameter.hue_prob DistortionParameter.hue_delta "
            "DistortionParameter.random_order_prob TransformationParameter.expand_param "
            "TransformationParameter.emit_constraint annotated_data_param multibox_loss_param "
            "prior_box_param detection_output_param permute_param norm_param "
            "SolverParameter.eval_type SolverParameter.ap_version "
            "SolverParameter.show_per_class_result"},
    {"DeepLab and PSPNet", "interp_param"},
    {"DeepLab",
     "ImageDataParameter.label_type ConvolutionParameter.hole "
     "ConvolutionParameter.hole_h ConvolutionParameter.hole_w V1LayerParameter.strict_dim "
     "mat_write_param seg_accuracy_param"},
    {"PSPNet and SegNet", "bn_param"},
    {"SegNet", "upsample_param dense_image_data_param"},
    {"Fast R-CNN", "roi_pooling_param smooth_l1_loss_param DropoutParameter.scale_train"},
    {"R-FCN", "psroi_pooling_param box_annotator_ohem_param"},
    {"C3D", "ConvolutionParameter.kernel_depth PoolingParameter.kernel_depth"},
    {"FlowNet", "correlation_param resample_param augmentation_param"},
    {"CRF as RNN", "multi_stage_meanfield_param"},
    {"OpenPose", "cpm_transform_param"},
    {"NVIDIA (NVCaffe)",
     "NetParameter.default_forward_type NetParameter.default_backward_type "
     "BatchNormParameter.scale_bias BatchNormParameter.scale_filler "
     "BatchNormParameter.bias_filler SolverParameter.larc SolverParameter.larc_policy "
     "SolverParameter.larc_eta SolverParameter.momentum_policy "
     "NetParameter.eltwise_mem_sharing DataParameter.cache DataParameter.threads "
     "DataParameter.parser_threads"},
    {"NVIDIA (DetectNet)", "detectnet_groundtruth_param detectnet_augmentation_param"},
    {"Yahoo (CaffeOnSpark)",
     "cos_data_param LayerParameter.source_class MemoryDataParameter.source "
     "MemoryDataParameter.share_in_parallel"},
    {"CenterLoss (face recognition)", "center_loss_param"},
    {"SphereFace (face recognition)", "margin_inner_product_param"},
    {"Intel", "SolverParameter.disabled_update DataParameter.shuffle "
              "TransformationParameter.random_resize_param"},
};

static const char *fork_of(const ProtobufCMessageDescriptor *message, const char *name)
{
    char here[192];

    snprintf(here, sizeof here, "%s.%s", message->short_name, name);
    for (size_t i = 0; i < sizeof forks / sizeof *forks; i++)
        if (suggest_lists(forks[i].fields, name) || suggest_lists(forks[i].fields, here))
            return forks[i].name;
    return NULL;
}

/* Fields of this message that are messages and have such a field themselves; the first few. */
static int list_homes(const ProtobufCMessageDescriptor *message, const char *name, char *out,
                      size_t bytes)
{
    int found = 0;

    for (unsigned i = 0; i < message->n_fields; i++) {
        const ProtobufCFieldDescriptor *field = &message->fields[i];

        if (field->type != PROTOBUF_C_TYPE_MESSAGE ||
            message_find_field(field->descriptor, name) == NULL)
            continue;
        if (++found > 3) {
            buffer_printf(out, bytes, " ...");
            break;
        }
        buffer_printf(out, bytes, "%s%s { }", found > 1 ? ", " : "", field->name);
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
        snprintf(out, bytes, "; it belongs in %s", homes);
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

    out[0] = '\0';
    if (descriptor->n_values <= 8) {
        for (unsigned i = 0; i < descriptor->n_values; i++)
            buffer_printf(out, bytes, "%s%s",
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
