/* Decoding, encoding and resizing against OpenCV and PyTorch (tests/data/input/generate_images.py).
 */
#include "input/format/image.h"
#include "tests/input/test_input_common.h"
#include "tests/suite.h"
#include "util/file.h"
#include "spec/h5.h"

#include <math.h>

static struct strbuf file;
static struct image image, other;

static void free_all(void)
{
    strbuf_free(&file);
    image_free(&image);
    image_free(&other);
}

static void load(const char *name)
{
    char path[100];

    snprintf(path, sizeof path, "images/%s", name);
    expect_ok(file_load(&file, fixture(path), 1 << 20));
}

static int decode(enum image_color color)
{
    return image_decode(file.bytes, file.length, color, &image);
}

/* The reference under images.h5's NAME/KIND as floats; freed by the caller. */
static float *reference(const char *name, const char *kind, size_t elems)
{
    struct h5_dataset dataset;
    char path[200];
    float *out = malloc(elems * sizeof *out);
    size_t found = 1;
    hid_t h5;

    snprintf(path, sizeof path, "%s/%s", name, kind);
    h5_lock();
    expect_ok(h5_file_open(fixture("images.h5"), &h5));
    expect_ok(h5_dataset_open(h5, "images.h5", path, &dataset));
    for (int i = 0; i < dataset.naxes; i++)
        found *= dataset.dim[i];
    ck_assert_uint_eq(found, elems);
    expect_ok(h5_dataset_read_all(&dataset, H5T_NATIVE_FLOAT, out));
    h5_dataset_close(&dataset);
    H5Fclose(h5);
    h5_unlock();
    return out;
}

/* The largest difference between image and reference. */
static float distance(const struct image *from, const char *name, const char *kind)
{
    size_t n = from->pixels.length;
    float *expected = reference(name, kind, n), most = 0;

    for (size_t i = 0; i < n; i++)
        if (fabsf(expected[i] - from->pixels.bytes[i]) > most)
            most = fabsf(expected[i] - from->pixels.bytes[i]);
    free(expected);
    return most;
}

static const struct {
    const char *name;
    int channels; /* as stored */
    float most;   /* largest difference from OpenCV in colour; CMYK is no standard conversion */
} files[] = {{"color.jpg", 3, 0},  {"color_444.jpg", 3, 0}, {"progressive.jpg", 3, 0},
             {"gray.jpg", 1, 0},   {"cmyk.jpg", 3, 2},      {"color.png", 3, 0},
             {"gray.png", 1, 0},   {"palette.png", 3, 0},   {"alpha.png", 3, 0},
             {"bits.png", 1, 0},   {"gray16.png", 1, 0},    {"interlaced.png", 1, 0},
             {"color.webp", 3, 0}, {"lossless.webp", 3, 0}, {"alpha.webp", 3, 0}};

enum { NFILES = sizeof files / sizeof *files };

static void supported_or_leave(int k)
{
    load(files[k].name);
    if (strstr(files[k].name, ".png")    ? BUILT_PNG
        : strstr(files[k].name, ".webp") ? BUILT_WEBP
                                         : BUILT_JPEG)
        return;
    expect_error(decode(IMAGE_COLOR), "this program was built without lib");
    free_all();
    exit(0); /* in Check's child process: passed */
}

START_TEST(colours_come_as_opencv_gives_them)
{
    supported_or_leave(_i);
    expect_ok(decode(IMAGE_COLOR));
    ck_assert(image.channels == 3 && image.height == 23 && image.width == 37);
    ck_assert_float_le(distance(&image, files[_i].name, "color"), files[_i].most);
}
END_TEST

START_TEST(grey_comes_as_opencv_gives_it)
{
    supported_or_leave(_i);
    expect_ok(decode(IMAGE_GRAY));
    ck_assert(image.channels == 1 && image.height == 23 && image.width == 37);
    ck_assert_float_le(distance(&image, files[_i].name, "gray"), files[_i].most > 0 ? 2 : 1);
}
END_TEST

START_TEST(stored_channels_are_kept_where_nothing_is_asked)
{
    supported_or_leave(_i);
    expect_ok(decode(IMAGE_AS_STORED));
    ck_assert_int_eq(image.channels, files[_i].channels);
    ck_assert(image.height == 23 && image.width == 37);
    ck_assert_float_le(distance(&image, files[_i].name, image.channels == 3 ? "color" : "gray"),
                       files[_i].most);
}
END_TEST

START_TEST(a_file_cut_anywhere_is_refused)
{
    size_t whole;

    supported_or_leave(_i);
    whole = file.length;
    /* The last bytes of a JPEG are its end mark, those of a PNG its empty last chunk. */
    for (size_t cut = 0; cut < whole - 2; cut++) {
        uint8_t *exact = malloc(cut + 1); /* for the sanitizers: not a byte more */
        memcpy(exact, file.bytes, cut);
        ck_assert_int_ne(image_decode(exact, cut, IMAGE_COLOR, &image), 0);
        ck_assert_msg(strstr(error_text(), "image") || strstr(error_text(), "empty"), "%s",
                      error_text());
        free(exact);
    }
}
END_TEST

START_TEST(damage_never_crashes)
{
    supported_or_leave(_i);
    for (size_t at = 0; at < file.length; at++) {
        file.bytes[at] ^= 0xff;
        (void)decode(IMAGE_COLOR);
        file.bytes[at] ^= 0xff;
    }
    expect_ok(decode(IMAGE_COLOR));
}
END_TEST

/* Any byte of it, and any length. */
START_TEST(damaged_exif_data_never_make_an_image_unreadable)
{
    static const uint8_t exif[] =
        "\xff\xe1\0\x22"
        "Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0";
    enum { LENGTH = 36 };
    uint8_t *photo;

    if (!BUILT_JPEG)
        return;
    load("color.jpg");
    photo = malloc(file.length + LENGTH);
    memcpy(photo, file.bytes, 2);
    memcpy(photo + 2, exif, LENGTH);
    memcpy(photo + 2 + LENGTH, file.bytes + 2, file.length - 2);
    expect_ok(image_decode(photo, file.length + LENGTH, IMAGE_COLOR, &image));
    ck_assert(image.height == 37 && image.width == 23);
    for (int at = 4; at < LENGTH; at++)
        for (int value = 0; value < 256; value++) {
            photo[2 + at] = (uint8_t)value;
            if (image_decode(photo, file.length + LENGTH, IMAGE_COLOR, &image) ||
                image.height * image.width != 23 * 37 || image.orientation != 1)
                ck_abort_msg("byte %d is %d: %s", at, value, error_text());
            photo[2 + at] = exif[at];
        }
    for (int length = 0; length < LENGTH - 4; length++) {
        uint8_t *exact = malloc(file.length + 4 + (size_t)length);
        memcpy(exact, photo, 6 + (size_t)length);
        exact[5] = (uint8_t)(2 + length);
        memcpy(exact + 6 + length, file.bytes + 2, file.length - 2);
        expect_ok(image_decode(exact, file.length + 4 + (size_t)length, IMAGE_COLOR, &image));
        free(exact);
    }
    free(photo);
}
END_TEST

START_TEST(a_webp_image_is_refused_by_one_message_for_what_it_is)
{
    uint8_t *animated = (uint8_t *)"RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0\2\0\0\0\7\0\0\7\0\0";

    load("color.webp");
    if (!BUILT_WEBP) {
        expect_error(decode(IMAGE_COLOR), "a WebP image, but this program was built without",
                     "libwebp-dev");
        return;
    }
    file.length--;
    expect_error(decode(IMAGE_COLOR), "truncated WebP image: its data end at offset 311");
    file.length++;
    memset(file.bytes + 20, 0xff, 10);
    expect_error(decode(IMAGE_COLOR), "damaged WebP image");
    expect_error(image_decode(animated, 30, IMAGE_COLOR, &image), "an animated WebP image");
}
END_TEST

START_TEST(other_formats_are_named)
{
    load("color.bmp");
    expect_error(decode(IMAGE_COLOR), "expected a JPEG, PNG or WebP image, found a BMP picture",
                 "'mogrify -auto-orient -format png FILE...'");
    expect_error(image_decode("GIF89a...", 9, IMAGE_COLOR, &image), "a GIF picture", "mogrify");
    expect_error(image_decode("II*\0....", 8, IMAGE_COLOR, &image), "a TIFF picture", "mogrify");
    expect_error(image_decode("\0\0\0\x18"
                              "ftypheic",
                              12, IMAGE_COLOR, &image),
                 "a HEIF picture", "mogrify");
    expect_error(image_decode("hello", 5, IMAGE_COLOR, &image), "not an image", "0x68");
    expect_error(image_decode("", 0, IMAGE_COLOR, &image), "empty");
}
END_TEST

START_TEST(a_header_that_claims_too_much_is_refused_before_memory_is_taken)
{
    load("color.png");
    memset(file.bytes + 16, 0, 8);
    file.bytes[17] = file.bytes[21] = 8; /* 524288 x 524288; the checksum is wrong too */
    ck_assert_int_ne(decode(IMAGE_COLOR), 0);
    expect_error(image_set_size(&image, 3, 1 << 20, 1 << 20), "1048576 x 1048576",
                 "expected at most");
    expect_error(image_set_size(&image, 3, 0, 7), "7 x 0");
    expect_error(image_set_size(&image, 3, UINT64_MAX, UINT64_MAX), "expected at most");
}
END_TEST

START_TEST(png_is_lossless_and_jpeg_close)
{
    struct strbuf packed = {0};

    load("color.png");
    if (!BUILT_PNG || !BUILT_JPEG)
        return;
    for (int gray = 0; gray < 2; gray++) {
        expect_ok(decode(gray ? IMAGE_GRAY : IMAGE_COLOR));
        packed.length = 0;
        expect_ok(image_encode(&image, IMAGE_PNG, 0, &packed));
        expect_ok(image_decode(packed.bytes, packed.length, IMAGE_AS_STORED, &other));
        ck_assert_int_eq(other.channels, image.channels);
        ck_assert_mem_eq(other.pixels.bytes, image.pixels.bytes, image.pixels.length);
        packed.length = 0;
        expect_ok(image_encode(&image, IMAGE_JPEG, 100, &packed));
        expect_ok(image_decode(packed.bytes, packed.length, IMAGE_AS_STORED, &other));
        ck_assert_int_eq(other.channels, image.channels);
        double sum = 0;
        for (size_t i = 0; i < image.pixels.length; i++)
            sum += abs(other.pixels.bytes[i] - image.pixels.bytes[i]);
        ck_assert_double_lt(sum / (double)image.pixels.length, 4);
    }
    strbuf_free(&packed);
}
END_TEST

static const int sizes[][2] = {{10, 10}, {46, 74}, {23, 20}, {50, 37},
                               {7, 61},  {1, 1},   {100, 1}, {22, 36}};

START_TEST(resizing_is_opencvs_to_the_bit_and_pytorchs_to_a_rounding)
{
    char name[40];

    if (!BUILT_PNG)
        return;
    load("color.png");
    expect_ok(decode(IMAGE_COLOR));
    expect_ok(image_resize(&image, sizes[_i][0], sizes[_i][1], &other));
    ck_assert(other.height == sizes[_i][0] && other.width == sizes[_i][1] && other.channels == 3);
    snprintf(name, sizeof name, "resize/%dx%d", sizes[_i][0], sizes[_i][1]);
    ck_assert_float_eq(distance(&other, name, "opencv"), 0);
    ck_assert_float_lt(distance(&other, name, "pytorch"), 1);
}
END_TEST

START_TEST(halving_is_opencvs_to_the_bit)
{
    if (!BUILT_PNG)
        return;
    load("color.png");
    expect_ok(decode(IMAGE_COLOR));
    expect_ok(image_set_size(&other, 3, 22, 36));
    for (int y = 0; y < 22; y++)
        memcpy(other.pixels.bytes + y * 36 * 3, image.pixels.bytes + y * 37 * 3, 36 * 3);
    expect_ok(image_resize(&other, 11, 18, &image));
    ck_assert_float_eq(distance(&image, "half", "opencv"), 0);
}
END_TEST

/* Shrunk, enlarged, of the same size, halved; seen as planes and interleaved. */
START_TEST(a_part_is_resized_to_what_the_whole_has_there)
{
    static const int to[][2] = {{31, 40}, {90, 75}, {44, 72}, {22, 36}, {44, 20}, {1, 1}};
    static struct image part;
    uint8_t planes[3 * 90 * 75];

    expect_ok(image_set_size(&image, 3, 44, 72));
    for (size_t i = 0; i < image.pixels.length; i++)
        image.pixels.bytes[i] = (uint8_t)(i * 7919 >> 3);
    for (int i = 0; i < 60; i++) {
        const int height = to[i % 6][0], width = to[i % 6][1];
        const struct image_view view = image_view(&image);
        struct image_box box = {i % height, i * 5 % width, 0, 0};
        struct image_view expected, found;

        box.height = 1 + i * 3 % (height - box.top);
        box.width = 1 + i * 11 % (width - box.left);
        expect_ok(image_resize(&image, height, width, &other));
        expect_ok(image_resize_part(&view, height, width, &box, &part));
        expected = image_view(&other);
        expected = image_view_part(&expected, &box);
        found = image_view(&part);
        image_view_planes(&found, planes);
        for (int y = 0; y < box.height; y++)
            for (int x = 0; x < 3 * box.width; x++) {
                uint8_t pixel = expected.pixels[(size_t)y * expected.stride + (size_t)x];

                ck_assert_int_eq(found.pixels[(size_t)y * found.stride + (size_t)x], pixel);
                ck_assert_int_eq(planes[(x % 3 * box.height + y) * box.width + x / 3], pixel);
            }
    }
    image_free(&part);
}
END_TEST

START_TEST(planes_are_blue_green_red)
{
    uint8_t planes[6];

    expect_ok(image_set_size(&image, 3, 1, 2));
    memcpy(image.pixels.bytes, "bgrBGR", 6);
    image_to_planes(&image, planes);
    ck_assert_mem_eq(planes, "bBgGrR", 6);
    expect_error(image_resize(&image, 0, 5, &other), "5 x 0");
}
END_TEST

SUITE("input_image")
{
    TCase *tcase = suite_case(suite, "images");

    tcase_add_checked_fixture(tcase, NULL, free_all);
    tcase_add_loop_test(tcase, colours_come_as_opencv_gives_them, 0, NFILES);
    tcase_add_loop_test(tcase, grey_comes_as_opencv_gives_it, 0, NFILES);
    tcase_add_loop_test(tcase, stored_channels_are_kept_where_nothing_is_asked, 0, NFILES);
    tcase_add_loop_test(tcase, a_file_cut_anywhere_is_refused, 0, NFILES);
    tcase_add_loop_test(tcase, damage_never_crashes, 0, NFILES);
    tcase_add_test(tcase, damaged_exif_data_never_make_an_image_unreadable);
    tcase_add_test(tcase, a_webp_image_is_refused_by_one_message_for_what_it_is);
    tcase_add_test(tcase, other_formats_are_named);
    tcase_add_test(tcase, a_header_that_claims_too_much_is_refused_before_memory_is_taken);
    tcase_add_test(tcase, png_is_lossless_and_jpeg_close);
    tcase_add_loop_test(tcase, resizing_is_opencvs_to_the_bit_and_pytorchs_to_a_rounding, 0,
                        (int)(sizeof sizes / sizeof *sizes));
    tcase_add_test(tcase, halving_is_opencvs_to_the_bit);
    tcase_add_test(tcase, a_part_is_resized_to_what_the_whole_has_there);
    tcase_add_test(tcase, planes_are_blue_green_red);
}
