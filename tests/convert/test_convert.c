/* The readers behind `poseidon convert`: what they accept, and that damage at any offset is an
 * error that says where. The command itself is tested by test_convert_command.py. */
#include "convert/imageset.h"
#include "tests/files.h"
#include "tests/input/test_input_common.h"

#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

/* Packs as gzip; returns the packed length. */
static size_t gzip(const uint8_t *data, size_t length, uint8_t *out, size_t room)
{
    z_stream z = {0};

    ck_assert_int_eq(deflateInit2(&z, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    z.next_in = (uint8_t *)data;
    z.avail_in = (uInt)length;
    z.next_out = out;
    z.avail_out = (uInt)room;
    ck_assert_int_eq(deflate(&z, Z_FINISH), Z_STREAM_END);
    deflateEnd(&z);
    return z.total_out;
}

/* Three images of 4 x 5 whose byte e is 7 e mod 251, and labels 0, 9, 4. */
enum { IDX_N = 3, IDX_H = 4, IDX_W = 5, IDX_BYTES = 16 + IDX_N * IDX_H * IDX_W };

static const uint8_t idx_labels[8 + IDX_N] = {0, 0, 8, 1, 0, 0, 0, IDX_N, 0, 9, 4};

static void idx_images(uint8_t out[IDX_BYTES])
{
    const uint8_t header[16] = {0, 0, 8, 3, 0, 0, 0, IDX_N, 0, 0, 0, IDX_H, 0, 0, 0, IDX_W};

    memcpy(out, header, sizeof header);
    for (int e = 16; e < IDX_BYTES; e++)
        out[e] = (uint8_t)((e - 16) * 7 % 251);
}

static int idx_read(const char *images, struct imageset *set)
{
    return imageset_read_mnist(in_folder(images), IMAGESET_TRAIN, 10, set);
}

static void idx_check(struct imageset *set)
{
    uint8_t images[IDX_BYTES];

    idx_images(images);
    ck_assert_uint_eq(set->count, IDX_N);
    ck_assert(set->dim[0] == 1 && set->dim[1] == IDX_H && set->dim[2] == IDX_W);
    ck_assert_mem_eq(set->data, images + 16, sizeof images - 16);
    ck_assert_mem_eq(set->label, idx_labels + 8, IDX_N);
    imageset_free(set);
}

START_TEST(idx_is_read_plain_packed_and_mixed)
{
    uint8_t images[IDX_BYTES], packed[4096];
    struct imageset set;
    size_t length;

    idx_images(images);
    length = gzip(images, sizeof images, packed, sizeof packed);
    file_put("a-images-idx3-ubyte", images, sizeof images);
    file_put("a-labels-idx1-ubyte", idx_labels, sizeof idx_labels);
    expect_ok(idx_read("a-images-idx3-ubyte", &set));
    idx_check(&set);
    file_put("b-images-idx3-ubyte.gz", packed, length);
    file_put("b-labels-idx1-ubyte", idx_labels, sizeof idx_labels);
    expect_ok(idx_read("b-images-idx3-ubyte.gz", &set));
    idx_check(&set);
    length = gzip(idx_labels, sizeof idx_labels, packed, sizeof packed);
    file_put("c.images.idx3", images, sizeof images);
    file_put("c.labels.idx1.gz", packed, length);
    expect_ok(idx_read("c.images.idx3", &set));
    idx_check(&set);
}
END_TEST

START_TEST(idx_cut_at_any_offset_names_file_and_offset)
{
    uint8_t images[IDX_BYTES];
    struct imageset set;
    char offset[32];

    idx_images(images);
    file_put("images-idx3", images, sizeof images);
    for (size_t cut = 0; cut < sizeof idx_labels; cut++) {
        file_put("labels-idx1", idx_labels, cut);
        snprintf(offset, sizeof offset, "truncated at offset %zu", cut);
        expect_error(idx_read("images-idx3", &set), "labels-idx1", offset);
        ck_assert_ptr_null(set.data);
    }
    file_put("labels-idx1", idx_labels, sizeof idx_labels);
    for (size_t cut = 0; cut < sizeof images; cut++) {
        file_put("images-idx3", images, cut);
        snprintf(offset, sizeof offset, "truncated at offset %zu", cut);
        expect_error(idx_read("images-idx3", &set), "images-idx3", offset);
        ck_assert_ptr_null(set.data);
    }
}
END_TEST

START_TEST(packed_idx_cut_or_damaged_anywhere_is_never_taken_for_good)
{
    uint8_t images[IDX_BYTES], packed[4096];
    struct imageset set;
    size_t length;

    idx_images(images);
    length = gzip(images, sizeof images, packed, sizeof packed);
    file_put("labels-idx1", idx_labels, sizeof idx_labels);
    for (size_t cut = 0; cut < length; cut++) {
        file_put("images-idx3.gz", packed, cut);
        expect_error(idx_read("images-idx3.gz", &set), "images-idx3.gz", "offset");
    }
    for (size_t at = 0; at < length; at++)
        for (int bit = 0; bit < 8; bit++) {
            packed[at] ^= (uint8_t)(1 << bit);
            file_put("images-idx3.gz", packed, length);
            packed[at] ^= (uint8_t)(1 << bit);
            if (idx_read("images-idx3.gz", &set) == 0)
                idx_check(&set); /* a bit that says nothing, such as the time of packing */
            else
                expect_error(-1, "images-idx3.gz");
        }
}
END_TEST

START_TEST(idx_of_wrong_kind_or_size_says_what_was_expected)
{
    uint8_t images[IDX_BYTES + 1] = {0}, labels[sizeof idx_labels];
    struct imageset set;

    idx_images(images);
    memcpy(labels, idx_labels, sizeof labels);
    file_put("images-idx3", images, sizeof images);
    file_put("labels-idx1", labels, sizeof labels);
    expect_error(idx_read("images-idx3", &set), "images-idx3", "extra bytes", "offset 76");
    file_put("images-idx3", labels, sizeof labels);
    expect_error(idx_read("images-idx3", &set), "0x00000801 at offset 0", "labels",
                 "expected 0x00000803");
    file_put("images-idx3", "PNG, or so", 10);
    expect_error(idx_read("images-idx3", &set), "0x504e472c at offset 0", "expected 0x00000803");
    memset(images + 4, 0, 4);
    file_put("images-idx3", images, IDX_BYTES);
    expect_error(idx_read("images-idx3", &set), "size 0 at offset 4", "expected at least 1");
    memset(images + 4, 255, 12);
    file_put("images-idx3", images, IDX_BYTES);
    expect_error(idx_read("images-idx3", &set), "offset 8", "65536");
    images[8] = images[9] = images[12] = images[13] = 0;
    file_put("images-idx3", images, IDX_BYTES);
    expect_error(idx_read("images-idx3", &set), "truncated at offset 76", "4294967295 images");
    idx_images(images);
    file_put("images-idx3", images, IDX_BYTES);
    labels[7] = 2;
    file_put("labels-idx1", labels, sizeof labels - 1);
    expect_error(idx_read("images-idx3", &set), "labels-idx1", "2 labels at offset 4", "3 images");
    labels[7] = 3;
    labels[9] = 10;
    file_put("labels-idx1", labels, sizeof labels);
    expect_error(idx_read("images-idx3", &set), "labels-idx1", "label 10", "offset 9",
                 "expected 0..9");
    unlink(in_folder("labels-idx1"));
    expect_error(idx_read("images-idx3", &set), "no labels file", "labels-idx1");
    file_put("pictures", images, IDX_BYTES);
    expect_error(idx_read("pictures", &set), "expected a name with");
    expect_error(idx_read("nowhere-images-idx3", &set), "nowhere-images-idx3", "No such file");
}
END_TEST

/* CIFAR-10 record r: label r mod 10, byte e is 11 r + e mod 253. */
enum { CIFAR_RECORD = 3073 };

static void cifar_record(size_t r, uint8_t out[CIFAR_RECORD])
{
    out[0] = (uint8_t)(r % 10);
    for (size_t e = 0; e < CIFAR_RECORD - 1; e++)
        out[1 + e] = (uint8_t)((11 * r + e) % 253);
}

static int cifar_read(const char *name, struct imageset *set)
{
    char *path = (char *)in_folder(name);

    return imageset_read_cifar10_files(1, &path, set);
}

START_TEST(cifar_file_cut_at_any_offset_is_an_error_unless_between_records)
{
    uint8_t records[2 * CIFAR_RECORD];
    struct imageset set;
    char offset[32];

    cifar_record(0, records);
    cifar_record(1, records + CIFAR_RECORD);
    for (size_t cut = 0; cut < sizeof records; cut += cut < 40 || cut > 6000 ? 1 : 97) {
        file_put("x.bin", records, cut);
        snprintf(offset, sizeof offset, "at offset %zu", cut);
        if (cut == 0)
            expect_error(cifar_read("x.bin", &set), "x.bin", "empty", "3073 bytes");
        else
            expect_error(cifar_read("x.bin", &set), "x.bin", "truncated", offset, "of 3073 bytes");
        ck_assert_ptr_null(set.data);
    }
    file_put("x.bin", records, sizeof records);
    expect_ok(cifar_read("x.bin", &set));
    ck_assert_uint_eq(set.count, 2);
    ck_assert_mem_eq(set.data, records + 1, 3072);
    ck_assert_mem_eq(set.data + 3072, records + 1 + CIFAR_RECORD, 3072);
    ck_assert(set.label[0] == 0 && set.label[1] == 1);
    imageset_free(&set);
    file_put("x.bin", records, CIFAR_RECORD);
    expect_ok(cifar_read("x.bin", &set));
    ck_assert_uint_eq(set.count, 1);
    imageset_free(&set);
}
END_TEST

START_TEST(cifar_label_outside_the_classes_names_record_and_offset)
{
    uint8_t records[2 * CIFAR_RECORD];
    struct imageset set;

    cifar_record(0, records);
    cifar_record(1, records + CIFAR_RECORD);
    records[CIFAR_RECORD] = 10;
    file_put("x.bin", records, sizeof records);
    expect_error(cifar_read("x.bin", &set), "x.bin", "label 10 in record 1", "offset 3073", "0..9");
}
END_TEST

START_TEST(shuffle_is_a_permutation_that_the_seed_decides)
{
    struct imageset set[2] = {{.dim = {1, 1, 1}, .nclasses = 200},
                              {.dim = {1, 1, 1}, .nclasses = 200}};
    size_t count[200];
    int moved = 0;

    for (int k = 0; k < 2; k++) {
        expect_ok(imageset_reserve(&set[k], 200));
        set[k].count = 200;
        for (int i = 0; i < 200; i++)
            set[k].data[i] = set[k].label[i] = (uint8_t)i;
        expect_ok(imageset_shuffle(&set[k], 5));
    }
    ck_assert_mem_eq(set[0].label, set[1].label, 200);
    ck_assert_mem_eq(set[0].label, set[0].data, 200);
    imageset_count(&set[0], count);
    for (int i = 0; i < 200; i++) {
        ck_assert_uint_eq(count[i], 1);
        moved += set[0].label[i] != i;
    }
    ck_assert_int_gt(moved, 180);
    imageset_free(&set[0]);
    imageset_free(&set[1]);
}
END_TEST

SUITE("convert")
{
    TCase *tcase = suite_case(suite, "readers");

    tcase_add_checked_fixture(tcase, folder_make, folder_remove);
    tcase_add_test(tcase, idx_is_read_plain_packed_and_mixed);
    tcase_add_test(tcase, idx_cut_at_any_offset_names_file_and_offset);
    tcase_add_test(tcase, packed_idx_cut_or_damaged_anywhere_is_never_taken_for_good);
    tcase_add_test(tcase, idx_of_wrong_kind_or_size_says_what_was_expected);
    tcase_add_test(tcase, cifar_file_cut_at_any_offset_is_an_error_unless_between_records);
    tcase_add_test(tcase, cifar_label_outside_the_classes_names_record_and_offset);
    tcase_add_test(tcase, shuffle_is_a_permutation_that_the_seed_decides);
}
