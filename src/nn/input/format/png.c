/* PNG through libpng. libpng reports errors by longjmp, so the variables that reading changes are
 * in one struct on the heap; writing changes none. */
#include "input/format/image_internal.h"

#include "util/alloc.h"

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#ifdef HAVE_PNG

#include <ctype.h>
#include <png.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIDE        1000000
#define MAX_CHUNK_BYTES (64u << 20)

struct reading {
    const uint8_t *data; /* borrowed */
    size_t length, at;
    png_structp png;
    png_infop info;
    png_bytep *rows; /* owned */
};

static void on_error(png_structp png, png_const_charp text)
{
    error_set("damaged PNG image (%s)", text);
    png_longjmp(png, 1);
}

static void on_warning(png_structp png, png_const_charp text)
{
    (void)png;
    (void)text;
}

static void on_read(png_structp png, png_bytep out, size_t length)
{
    struct reading *reading = png_get_io_ptr(png);

    if (length > reading->length - reading->at) {
        error_set("truncated PNG image: its data end at offset %zu", reading->length);
        png_longjmp(png, 1);
    }
    memcpy(out, reading->data + reading->at, length);
    reading->at += length;
}

/* Fails unless each pixel is one number of at most 8 bits. */
static int indices_check(int type, int depth)
{
    const char *found = depth == 16                   ? "16 bits"
                        : type & PNG_COLOR_MASK_ALPHA ? "transparency (alpha)"
                        : type == PNG_COLOR_TYPE_RGB  ? "colours (RGB)"
                                                      : NULL;

    return found ? error_set("a picture of labels with %s; expected gray or a palette, of at most "
                             "8 bits and without alpha, whose numbers are the classes (OpenCV "
                             "makes colours of a palette, Pillow keeps its numbers)",
                             found)
                 : 0;
}

/* Sets libpng's conversions: 8 bits, no palette, no transparency, gray or colour; or the numbers of
 * pixels as stored. */
static void conversions_set(struct reading *r, int type, int depth, bool gray, bool indices)
{
    bool has_color = (type & PNG_COLOR_MASK_COLOR) != 0;

    png_set_interlace_handling(r->png);
    if (indices) {
        png_set_packing(r->png);
        return;
    }
    if (depth == 16)
        png_set_strip_16(r->png);
    if (type == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(r->png);
    if (type == PNG_COLOR_TYPE_GRAY && depth < 8)
        png_set_expand_gray_1_2_4_to_8(r->png);
    png_set_strip_alpha(r->png);
    if (gray && has_color)
        png_set_rgb_to_gray(r->png, PNG_ERROR_ACTION_NONE, 0.299, 0.587);
    if (!gray && !has_color)
        png_set_gray_to_rgb(r->png);
    if (!gray)
        png_set_bgr(r->png);
}

/* Returns the value of a hexadecimal digit. */
static int digit(char c)
{
    return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
}

/* Returns the orientation in ImageMagick's old text form of EXIF: an empty line, "exif", the number
 * of bytes, lines of hexadecimal digits. Converts the digits to bytes in place. */
static int orientation_of_text(char *text)
{
    size_t length = 0;

    for (int line = 0; line < 3 && text; line++)
        text = strchr(text + (line > 0), '\n');
    for (char *at = text;
         at && isxdigit((unsigned char)*(at += strspn(at, "\n"))) && isxdigit((unsigned char)at[1]);
         at += 2)
        text[length++] = (char)(digit(at[0]) << 4 | digit(at[1]));
    return text ? exif_orientation((uint8_t *)text, length) : 1;
}

/* Returns the orientation. EXIF data may precede or follow the pixels; eXIf needs libpng 1.6.32. */
static int orientation_of(const struct reading *r)
{
    png_textp text = NULL;
    int count;

#ifdef PNG_eXIf_SUPPORTED
    png_bytep data = NULL;
    png_uint_32 length = 0;

    if (png_get_eXIf_1(r->png, r->info, &length, &data))
        return exif_orientation(data, length);
#endif
    count = png_get_text(r->png, r->info, &text, NULL);
    for (int i = 0; i < count; i++)
        if (!strcmp(text[i].key, "Raw profile type exif") ||
            !strcmp(text[i].key, "Raw profile type APP1"))
            return orientation_of_text(text[i].text);
    return 1;
}

static int png_decode_steps(struct reading *r, enum image_color color, struct image *out)
{
    png_uint_32 width, height;
    int depth, type;
    bool gray, indices = color == IMAGE_INDICES;
    size_t stride;

    png_set_read_fn(r->png, r, on_read);
    png_set_user_limits(r->png, MAX_SIDE, MAX_SIDE);
    png_set_chunk_malloc_max(r->png, MAX_CHUNK_BYTES);
    png_read_info(r->png, r->info);
    png_get_IHDR(r->png, r->info, &width, &height, &depth, &type, NULL, NULL, NULL);
    out->stored_gray = !(type & PNG_COLOR_MASK_COLOR);
    gray = indices || color == IMAGE_GRAY || (color == IMAGE_AS_STORED && out->stored_gray);
    out->indices_lost = gray && !indices && type == PNG_COLOR_TYPE_PALETTE;
    if ((indices && indices_check(type, depth)) || image_set_size(out, gray ? 1 : 3, height, width))
        return -1;
    conversions_set(r, type, depth, gray, indices);
    png_read_update_info(r->png, r->info);
    stride = (size_t)width * (gray ? 1 : 3);
    if (png_get_rowbytes(r->png, r->info) != stride)
        return error_set("a PNG image whose rows have %zu bytes; expected %zu",
                         (size_t)png_get_rowbytes(r->png, r->info), stride);
    if (ALLOC(r->rows, height, "a PNG image"))
        return -1;
    for (png_uint_32 y = 0; y < height; y++)
        r->rows[y] = out->pixels.bytes + y * stride;
    png_read_image(r->png, r->rows);
    png_read_end(r->png, r->info);
    out->orientation = orientation_of(r);
    return 0;
}

int png_decode(const void *data, size_t length, enum image_color color, struct image *out)
{
    struct reading *r = alloc_array(1, sizeof *r, "a PNG image");
    int status = -1;

    if (!r)
        return -1;
    r->data = data;
    r->length = length;
    r->png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, on_error, on_warning);
    r->info = r->png ? png_create_info_struct(r->png) : NULL;
    if (!r->info)
        error_memory(sizeof *r, "a PNG image");
    else if (setjmp(png_jmpbuf(r->png)) == 0)
        status = png_decode_steps(r, color, out);
    else
        status = -1;
    png_destroy_read_struct(&r->png, &r->info, NULL);
    free(r->rows);
    free(r);
    return status;
}

static void on_write(png_structp png, png_bytep data, size_t length)
{
    if (strbuf_add(png_get_io_ptr(png), data, length, "a PNG image"))
        png_longjmp(png, 1);
}

static void on_flush(png_structp png)
{
    (void)png;
}

/* Sets Pascal VOC's colours: a number's bits are, in turn, upper bits of red, green and blue. */
static void palette_set(png_structp png, png_infop info)
{
    png_color colors[256] = {{0, 0, 0}};

    for (unsigned i = 0; i < 256; i++)
        for (unsigned bit = 0; bit < 8; bit++) {
            png_byte *const channel[] = {&colors[i].red, &colors[i].green, &colors[i].blue};

            *channel[bit % 3] |= (png_byte)((i >> bit & 1) << (7 - bit / 3));
        }
    png_set_PLTE(png, info, colors, 256);
}

static void png_encode_steps(png_structp png, png_infop info, const struct image *image,
                             struct strbuf *out)
{
    size_t stride = (size_t)image->width * (size_t)image->channels;

    png_set_write_fn(png, out, on_write, on_flush);
    png_set_IHDR(png, info, (png_uint_32)image->width, (png_uint_32)image->height, 8,
                 image->indices         ? PNG_COLOR_TYPE_PALETTE
                 : image->channels == 1 ? PNG_COLOR_TYPE_GRAY
                                        : PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (image->indices)
        palette_set(png, info);
    png_write_info(png, info);
    png_set_bgr(png);
    for (int y = 0; y < image->height; y++)
        png_write_row(png, image->pixels.bytes + (size_t)y * stride);
    png_write_end(png, NULL);
}

int png_encode(const struct image *image, int quality, struct strbuf *out)
{
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, on_error, on_warning);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    int status = -1;

    (void)quality;
    if (!info) {
        error_memory(sizeof *image, "a PNG image");
    } else if (setjmp(png_jmpbuf(png)) == 0) {
        png_encode_steps(png, info, image, out);
        status = 0;
    } else {
        status = -1;
    }
    png_destroy_write_struct(&png, &info);
    return status;
}

#endif
