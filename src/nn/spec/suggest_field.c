/* Suggests what an unknown field or value may have meant. */
#include "spec/suggest_field.h"

#include <stdio.h>
#include <string.h>

#include "spec/field.h"
#include "util/strbuf.h"
#include "util/suggest.h"

/* Fields that public files use and that Caffe itself does not have. */
static const struct {
    const char *name;   /* name of the fork; or, in small letters, purpose of the fork */
    const char *fields; /* blank-separated; MESSAGE.FIELD if other messages may have such a field */
} forks[] = {
    {"Ristretto", "quantization_param"},
    {"SSD", "TransformationParameter.resize_param noise_param hue_prob hue_delta random_order_prob "
            "expand_param emit_constraint annotated_data_param multibox_loss_param prior_box_param "
            "detection_output_param detection_evaluate_param permute_param norm_param eval_type "
            "ap_version show_per_class_result"},
    {"DeepLab and PSPNet", "interp_param"},
    {"DeepLab: tools/from_forks.py writes what does the same",
     "ConvolutionParameter.hole "
     "ConvolutionParameter.hole_h ConvolutionParameter.hole_w V1LayerParameter.strict_dim "
     "mat_write_param seg_accuracy_param"},
    {"PSPNet and SegNet", "bn_param"},
    {"SegNet: tools/from_forks.py writes InfogainLoss, which does the same",
     "LossParameter.class_weighting LossParameter.weight_by_label_freqs"},
    {"Fast R-CNN", "roi_pooling_param smooth_l1_loss_param DropoutParameter.scale_train"},
    {"R-FCN", "psroi_pooling_param box_annotator_ohem_param"},
    {"C3D", "ConvolutionParameter.kernel_depth PoolingParameter.kernel_depth"},
    {"C3D, or video-caffe", "video_data_param"},
    {"NormFace", "normalize_param"},
    {"SPP_net, whose settings stand in layer { } itself here (kernelsize, batchsize, ...)",
     "V0LayerParameter.conv_param V0LayerParameter.pool_param V0LayerParameter.lrn_param "
     "V0LayerParameter.dropout_param V0LayerParameter.concat_param "
     "V0LayerParameter.inner_product_param V0LayerParameter.data_param"},
    {"YOLO (caffe-yolo)", "DataParameter.side reorg_param region_loss_param eval_detection_param"},
    {"that pads each side by itself; pad, pad_h and pad_w pad both sides alike",
     "pad_l pad_r pad_t pad_b"},
    {"for video; kernel_size, stride and pad once for each axis do the same",
     "kernel_shape stride_shape pad_shape"},
    {"that cuts boxes; crop_height and crop_width of transform_param do the same",
     "crop_size_l crop_size_h crop_size_w crop_h crop_w"},
    {"with learning rates of its own; lr_policy says them here", "vstep_size stepearly_param"},
    {"FlowNet", "correlation_param resample_param augmentation_param"},
    {"CRF as RNN", "multi_stage_meanfield_param"},
    {"OpenPose", "cpm_transform_param"},
    {"NVIDIA (NVCaffe) and is about speed, precision or files alone: remove it",
     "default_forward_type default_backward_type default_forward_math default_backward_math "
     "global_grad_scale global_grad_scale_adaptive default_conv_algos_override reduce_buckets "
     "default_cudnn_math_override eltwise_mem_sharing forward_type backward_type forward_math "
     "backward_math LayerParameter.debug cudnn_math_override solver_data_type "
     "store_blobs_in_old_format per_parameter_reduce cudnn_convolution_algo_seeker "
     "conv_algos_override CuDNNFwdAlgo CuDNNBwdFilterAlgo CuDNNBwdDataAlgo CuDNNWorkspaceSize "
     "DataParameter.cache DataParameter.precache DataParameter.threads parser_threads "
     "ImageDataParameter.cache ImageDataParameter.precache ImageDataParameter.threads "
     "DropoutParameter.engine use_gpu_transform forward_packing TransformationParameter.display"},
    {"NVIDIA (NVCaffe) or Intel and is about speed alone: remove it", "BatchNormParameter.engine"},
    {"NVIDIA (NVCaffe): tools/from_forks.py adds a Scale layer, which does the same",
     "scale_bias BatchNormParameter.bias_filler BatchNormParameter.scale_filler"},
    {"NVIDIA (NVCaffe): local_lr_auto: true and local_gw_ratio do the same",
     "larc larc_eta larc_policy larc_turbo"},
    {"NVIDIA (DetectNet)", "detectnet_groundtruth_param detectnet_augmentation_param"},
    {"Yahoo (CaffeOnSpark)", "cos_data_param source_class MemoryDataParameter.source "
                             "MemoryDataParameter.share_in_parallel"},
    {"CenterLoss (face recognition)", "center_loss_param"},
    {"SphereFace (face recognition)", "margin_inner_product_param"},
    {"Intel and is about speed or files alone: remove it",
     "NetParameter.engine SolverParameter.engine LayerParameter.engine ConcatParameter.engine "
     "EltwiseParameter.engine InnerProductParameter.engine compile_net_state per_fla_fuse "
     "ReLUParameter.fuse conv_algorithm split_param multinode multinode_param "
     "mn_activation_param mn_grad_compress_param"},
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

/* Lists the first few fields whose messages have a field `name`; returns their number. */
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

void suggest_field(const ProtobufCMessageDescriptor *message,
                   const ProtobufCMessageDescriptor *outer, const char *name, char *out,
                   size_t bytes)
{
    const char *fork = fork_of(message, name);
    const ProtobufCFieldDescriptor *outside = outer ? message_find_field(outer, name) : NULL;
    /* a field that begins a block, such as the next layer, belongs to `outer` */
    bool opens = outside && outside->type == PROTOBUF_C_TYPE_MESSAGE;
    struct suggest near = suggest_start(name);
    char homes[256] = "";

    for (unsigned i = 0; i < message->n_fields; i++)
        suggest_offer(&near, message->fields[i].name);
    out[0] = '\0';
    if (fork != NULL)
        snprintf(out, bytes, "; it comes from %s%s",
                 *fork >= 'a' ? "a Caffe fork " : "the Caffe fork of ", fork);
    else if (!opens && near.nearest != NULL && 2 * (size_t)near.distance < strlen(name))
        snprintf(out, bytes, "; did you mean \"%s\"?", near.nearest);
    else if (!opens && list_homes(message, name, homes, sizeof homes) > 0)
        snprintf(out, bytes, "; it belongs in %s", homes);
    else if (outside != NULL)
        snprintf(out, bytes, "; it is a field of \"%s\": is a \"}\" missing before it?",
                 outer->name);
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
