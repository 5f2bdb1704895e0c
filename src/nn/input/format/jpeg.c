/* JPEG through libjpeg (libjpeg-turbo). libjpeg reports errors by longjmp, so variables that live
 * across setjmp are in a struct whose address does not change. */
#include "input/format/image_internal.h"

#include "util/alloc.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_JPEG

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <setjmp.h>
#include <jpeglib.h>
#include <jerror.h>

/* A progressive file could hold endless scans; no camera or program writes more than this. */
#define MAX_SCANS 500

struct failure {
    struct jpeg_error_mgr base; /* must be first: libjpeg's pointer is cast to this struct */
    jmp_buf escape;
    bool cut_short; /* the data end before the end mark */
    bool missing;   /* pixels were invented by libjpeg, or scans are missing */
};

static void failure_exit(j_common_ptr info)
{
    struct failure *failure = (struct failure *)info->err;
    int code = failure->base.msg_code;
    bool other = code == JERR_BAD_PRECISION || code == JERR_SOF_UNSUPPORTED;
    char text[JMSG_LENGTH_MAX];

    failure->base.format_message(info, text);
    error_set("%s JPEG image (%s)",
              other                ? "expected 8 bits, baseline or progressive, found another"
              : failure->cut_short ? "truncated"
                                   : "damaged",
              text);
    longjmp(failure->escape, 1);
}

/* Notes warnings (level -1) about missing data; other warnings are common and harmless. */
static void failure_note(j_common_ptr info, int level)
{
    struct failure *failure = (struct failure *)info->err;

    if (level < 0) {
        failure->cut_short |= failure->base.msg_code == JWRN_JPEG_EOF;
        failure->missing |= failure->base.msg_code == JWRN_HIT_MARKER;
    }
}

static void failure_install(struct failure *failure)
{
    jpeg_std_error(&failure->base);
    failure->base.error_exit = failure_exit;
    failure->base.emit_message = failure_note;
    failure->cut_short = failure->missing = false;
}

static void scans_watch(j_common_ptr info)
{
    if (info->is_decompressor && ((j_decompress_ptr)info)->input_scan_number > MAX_SCANS) {
        struct failure *failure = (struct failure *)info->err;
        error_set("damaged JPEG image (more than %d scans)", MAX_SCANS);
        longjmp(failure->escape, 1);
    }
}

static bool is_cmyk(const struct jpeg_decompress_struct *info)
{
    return info->jpeg_color_space == JCS_CMYK || info->jpeg_color_space == JCS_YCCK;
}

static void output_choose(struct jpeg_decompress_struct *info, int channels)
{
    if (is_cmyk(info))
        info->out_color_space = JCS_CMYK;
    else if (channels == 1)
        info->out_color_space = JCS_GRAYSCALE;
    else
        info->out_color_space = JCS_EXT_BGR;
}

static uint8_t product(unsigned a, unsigned b)
{
    return (uint8_t)((a * b + 127) / 255);
}

/* Converts a row from CMYK. Ink is taken as inverted (255 is no ink), as Adobe's programs store it.
 * Pillow and OpenCV do so for every CMYK file, with Adobe's marker or without. */
static void row_from_cmyk(const uint8_t *from, int channels, size_t width, uint8_t *to)
{
    for (size_t x = 0; x < width; x++, from += 4, to += channels) {
        unsigned r = product(from[0], from[3]);
        unsigned g = product(from[1], from[3]);
        unsigned b = product(from[2], from[3]);

        if (channels == 1) {
            to[0] = image_gray(b, g, r);
        } else {
            to[0] = (uint8_t)b;
            to[1] = (uint8_t)g;
            to[2] = (uint8_t)r;
        }
    }
}

static int orientation_of(const struct jpeg_decompress_struct *info)
{
    const struct jpeg_marker_struct *m = info->marker_list;

    while (m && (m->data_length < 6 || memcmp(m->data, "Exif\0", 6) != 0))
        m = m->next;
    return m ? exif_orientation(m->data, m->data_length) : 1;
}

/* Returns true if scans may be missing: bits of a progressive image's coefficients are unknown. */
static bool is_partial(struct jpeg_decompress_struct *info)
{
    if (!jpeg_has_multiple_scans(info) || !info->coef_bits)
        return jpeg_has_multiple_scans(info);
    for (int i = 0; i < info->num_components * DCTSIZE2; i++)
        if (info->coef_bits[i / DCTSIZE2][i % DCTSIZE2] != 0)
            return true;
    return false;
}

/* Decodes an image: all calls that longjmp may interrupt. */
static int jpeg_decode_steps(struct jpeg_decompress_struct *info, enum image_color color,
                             struct image *out)
{
    size_t stride;
    int channels;

    jpeg_save_markers(info, JPEG_APP0 + 1, 0xffff);
    jpeg_read_header(info, TRUE);
    out->orientation = orientation_of(info);
    out->stored_gray = info->num_components == 1;
    channels = color == IMAGE_GRAY || (color == IMAGE_AS_STORED && out->stored_gray) ? 1 : 3;
    if (image_set_size(out, channels, info->image_height, info->image_width))
        return -1;
    output_choose(info, channels);
    jpeg_start_decompress(info);
    stride = (size_t)out->width * (size_t)channels;
    JSAMPARRAY cmyk = is_cmyk(info) ? info->mem->alloc_sarray((j_common_ptr)info, JPOOL_IMAGE,
                                                              info->output_width * 4, 1)
                                    : NULL;
    while (info->output_scanline < info->output_height) {
        uint8_t *to = out->pixels.bytes + info->output_scanline * stride;
        JSAMPROW row = cmyk ? cmyk[0] : to;

        jpeg_read_scanlines(info, &row, 1);
        if (cmyk)
            row_from_cmyk(row, channels, (size_t)out->width, to);
    }
    ((struct failure *)info->err)->missing |= is_partial(info);
    jpeg_finish_decompress(info);
    return 0;
}

int jpeg_decode(const void *data, size_t length, enum image_color color, struct image *out)
{
    struct jpeg_decompress_struct info = {0};
    struct jpeg_progress_mgr progress = {.progress_monitor = scans_watch};
    struct failure failure;
    int status;

    failure_install(&failure);
    info.err = &failure.base;
    if (setjmp(failure.escape) == 0) {
        jpeg_create_decompress(&info);
        info.progress = &progress;
        jpeg_mem_src(&info, data, (unsigned long)length);
        status = jpeg_decode_steps(&info, color, out);
    } else {
        status = -1;
    }
    jpeg_destroy_decompress(&info);
    out->unended = failure.cut_short;
    if (status == 0 && failure.cut_short && failure.missing)
        return error_set("truncated JPEG image: its %zu bytes end before its %d rows do", length,
                         out->height);
    return status;
}

static void jpeg_encode_steps(struct jpeg_compress_struct *info, const struct image *image,
                              int quality)
{
    size_t stride = (size_t)image->width * (size_t)image->channels;

    info->image_width = (JDIMENSION)image->width;
    info->image_height = (JDIMENSION)image->height;
    info->input_components = image->channels;
    info->in_color_space = image->channels == 3 ? JCS_EXT_BGR : JCS_GRAYSCALE;
    jpeg_set_defaults(info);
    jpeg_set_quality(info, quality, TRUE);
    jpeg_start_compress(info, TRUE);
    while (info->next_scanline < info->image_height) {
        JSAMPROW row = image->pixels.bytes + info->next_scanline * stride;
        jpeg_write_scanlines(info, &row, 1);
    }
    jpeg_finish_compress(info);
}

int jpeg_encode(const struct image *image, int quality, struct strbuf *out)
{
    struct jpeg_compress_struct info = {0};
    struct failure failure;
    struct {
        unsigned char *data;
        unsigned long length;
    } *packed = alloc_array(1, sizeof *packed, "a JPEG image"); /* longjmp keeps the heap */
    int status;

    if (!packed)
        return -1;
    failure_install(&failure);
    info.err = &failure.base;
    if (setjmp(failure.escape) == 0) {
        jpeg_create_compress(&info);
        jpeg_mem_dest(&info, &packed->data, &packed->length);
        jpeg_encode_steps(&info, image, quality);
        status = strbuf_add(out, packed->data, packed->length, "a JPEG image");
    } else {
        status = error_context("encoding %d x %d pixels", image->width, image->height);
    }
    jpeg_destroy_compress(&info);
    free(packed->data);
    free(packed);
    return status;
}

#endif
