/* One interface for oneDNN's C interfaces 2.x and 3.x.
 *
 * 2.x keeps memory descriptors by value and creates primitives through op descriptors; 3.x made
 * memory descriptors opaque and dropped op descriptors. In this file a memory descriptor is always
 * a handle that its creator destroys. No other file asks for the version. */
#ifndef POSEIDON_ENGINE_CPU_DNNL_COMPAT_H
#define POSEIDON_ENGINE_CPU_DNNL_COMPAT_H

#include <oneapi/dnnl/dnnl.h>

#include <stdlib.h>

/* The window geometry of a convolution; oneDNN counts dilation from 0. */
struct compat_window {
    dnnl_dims_t strides, dilates, padding_l, padding_r;
};

#if DNNL_VERSION_MAJOR >= 3

typedef dnnl_memory_desc_t md_t;
typedef const_dnnl_memory_desc_t const_md_t;

static inline void md_destroy(md_t md)
{
    if (md)
        dnnl_memory_desc_destroy(md);
}

#else

typedef dnnl_memory_desc_t *md_t;
typedef const dnnl_memory_desc_t *const_md_t;

static inline void md_destroy(md_t md)
{
    free(md);
}

static inline dnnl_status_t md_keep(md_t *out, const dnnl_memory_desc_t *md, dnnl_status_t status)
{
    if (status != dnnl_success)
        return status;
    *out = malloc(sizeof **out);
    if (!*out)
        return dnnl_out_of_memory;
    **out = *md;
    return dnnl_success;
}

/* Creates the primitive descriptor of an op descriptor, if `status` is success. */
static inline dnnl_status_t compat_create(dnnl_primitive_desc_t *out, dnnl_status_t status,
                                          const void *desc, dnnl_engine_t engine,
                                          const_dnnl_primitive_desc_t hint,
                                          const_dnnl_primitive_attr_t attr)
{
    return status == dnnl_success ? dnnl_primitive_desc_create(out, desc, attr, engine, hint)
                                  : status;
}

#endif

/* Keeps float products float, whatever the environment says (ONEDNN_DEFAULT_FPMATH_MODE). */
static inline dnnl_status_t compat_strict(void)
{
#if DNNL_VERSION_MAJOR >= 3 || (DNNL_VERSION_MAJOR == 2 && DNNL_VERSION_MINOR >= 4)
    return dnnl_set_default_fpmath_mode(dnnl_fpmath_mode_strict);
#else
    return dnnl_success; /* these versions have no other mode */
#endif
}

static inline dnnl_status_t md_create_tag(md_t *out, int naxes, const int64_t *dims,
                                          dnnl_data_type_t type, dnnl_format_tag_t tag)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_memory_desc_create_with_tag(out, naxes, dims, type, tag);
#else
    dnnl_memory_desc_t md;
    return md_keep(out, &md, dnnl_memory_desc_init_by_tag(&md, naxes, dims, type, tag));
#endif
}

/* Returns the type of the descriptor's elements. */
static inline dnnl_data_type_t md_type(const_md_t md)
{
#if DNNL_VERSION_MAJOR >= 3
    dnnl_data_type_t type = dnnl_data_type_undef;
    return dnnl_memory_desc_query(md, dnnl_query_data_type, &type) == dnnl_success
               ? type
               : dnnl_data_type_undef;
#else
    return md->data_type;
#endif
}

static inline dnnl_status_t md_create_strides(md_t *out, int naxes, const int64_t *dims,
                                              dnnl_data_type_t type, const int64_t *strides)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_memory_desc_create_with_strides(out, naxes, dims, type, strides);
#else
    dnnl_memory_desc_t md;
    return md_keep(out, &md, dnnl_memory_desc_init_by_strides(&md, naxes, dims, type, strides));
#endif
}

static inline dnnl_status_t compat_conv_forward(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                                dnnl_prop_kind_t prop, const_md_t src,
                                                const_md_t weights, const_md_t bias, const_md_t dst,
                                                const struct compat_window *w,
                                                const_dnnl_primitive_attr_t attr)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_convolution_forward_primitive_desc_create(
        out, engine, prop, dnnl_convolution_direct, src, weights, bias, dst, w->strides, w->dilates,
        w->padding_l, w->padding_r, attr);
#else
    dnnl_convolution_desc_t desc;
    dnnl_status_t status = dnnl_dilated_convolution_forward_desc_init(
        &desc, prop, dnnl_convolution_direct, src, weights, bias, dst, w->strides, w->dilates,
        w->padding_l, w->padding_r);
    return compat_create(out, status, &desc, engine, NULL, attr);
#endif
}

static inline dnnl_status_t
compat_conv_backward_data(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const_md_t diff_src,
                          const_md_t weights, const_md_t diff_dst, const struct compat_window *w,
                          const_dnnl_primitive_desc_t hint, const_dnnl_primitive_attr_t attr)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_convolution_backward_data_primitive_desc_create(
        out, engine, dnnl_convolution_direct, diff_src, weights, diff_dst, w->strides, w->dilates,
        w->padding_l, w->padding_r, hint, attr);
#else
    dnnl_convolution_desc_t desc;
    dnnl_status_t status = dnnl_dilated_convolution_backward_data_desc_init(
        &desc, dnnl_convolution_direct, diff_src, weights, diff_dst, w->strides, w->dilates,
        w->padding_l, w->padding_r);
    return compat_create(out, status, &desc, engine, hint, attr);
#endif
}

static inline dnnl_status_t
compat_conv_backward_weights(dnnl_primitive_desc_t *out, dnnl_engine_t engine, const_md_t src,
                             const_md_t diff_weights, const_md_t diff_bias, const_md_t diff_dst,
                             const struct compat_window *w, const_dnnl_primitive_desc_t hint,
                             const_dnnl_primitive_attr_t attr)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_convolution_backward_weights_primitive_desc_create(
        out, engine, dnnl_convolution_direct, src, diff_weights, diff_bias, diff_dst, w->strides,
        w->dilates, w->padding_l, w->padding_r, hint, attr);
#else
    dnnl_convolution_desc_t desc;
    dnnl_status_t status = dnnl_dilated_convolution_backward_weights_desc_init(
        &desc, dnnl_convolution_direct, src, diff_weights, diff_bias, diff_dst, w->strides,
        w->dilates, w->padding_l, w->padding_r);
    return compat_create(out, status, &desc, engine, hint, attr);
#endif
}

/* Makes a primitive add its result to the memory of the result. */
static inline dnnl_status_t compat_append_sum(dnnl_post_ops_t ops)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_post_ops_append_sum(ops, 1.0f, 0, dnnl_data_type_undef);
#else
    return dnnl_post_ops_append_sum(ops, 1.0f);
#endif
}

static inline dnnl_status_t compat_matmul(dnnl_primitive_desc_t *out, dnnl_engine_t engine,
                                          const_md_t src, const_md_t weights, const_md_t bias,
                                          const_md_t dst, const_dnnl_primitive_attr_t attr)
{
#if DNNL_VERSION_MAJOR >= 3
    return dnnl_matmul_primitive_desc_create(out, engine, src, weights, bias, dst, attr);
#else
    dnnl_matmul_desc_t desc;
    dnnl_status_t status = dnnl_matmul_desc_init(&desc, src, weights, bias, dst);
    return compat_create(out, status, &desc, engine, NULL, attr);
#endif
}

#endif
