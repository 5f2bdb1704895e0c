/* Image lists and folders of images. */
#include "input/list.h"
#include "input/source.h"
#include "tests/files.h"
#include "tests/input/test_input_common.h"

#include <sys/stat.h>

static struct record record;

static void clean_up(void)
{
    record_free(&record);
    folder_remove();
}

START_TEST(lists_are_cut_at_the_last_blank)
{
    struct list list;
    const char *text = "a b c.jpg 3\n\n  \nplain.jpg\t-7  \r\nlast.png   2147483647";

    file_put("list.txt", text, strlen(text));
    expect_ok(list_read_file(&list, in_folder("list.txt"), 0));
    ck_assert_uint_eq(list.count, 3);
    ck_assert_str_eq(list_path(&list, 0), "a b c.jpg");
    ck_assert_str_eq(list_path(&list, 1), "plain.jpg");
    ck_assert_str_eq(list_path(&list, 2), "last.png");
    ck_assert(list.label[0] == 3 && list.label[1] == -7 && list.label[2] == 2147483647);
    list_free(&list);
}
END_TEST

START_TEST(bad_lists_name_file_and_line)
{
    static const struct {
        const char *text, *says, *also;
    } cases[] = {{"a.jpg 1\nb.jpg\n", "list.txt:2", "has no label"},
                 {"a.jpg 1\n\nb.jpg x\n", "list.txt:3", "not an integer"},
                 {"a.jpg 1.5\n", "list.txt:1", "'1.5' is not an integer"},
                 {"a.jpg 99999999999\n", "list.txt:1", "does not fit into 32 bits"},
                 {"17\n", "list.txt:1", "has no label"},
                 {" 17\n", "list.txt:1", "has no label"},
                 {"\n   17\n", "list.txt:2", "has no label"},
                 {"\n \n", "list.txt", "lists no images"},
                 {"", "list.txt", "found an empty file"}};
    struct list list;

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file_put("list.txt", cases[i].text, strlen(cases[i].text));
        expect_error(list_read_file(&list, in_folder("list.txt"), 0), cases[i].says, cases[i].also);
    }
    file_put("list.txt", "a\0b", 3);
    expect_error(list_read_file(&list, in_folder("list.txt"), 0), "not a text file");
    expect_error(list_read_file(&list, in_folder("none.txt"), 0), "none.txt", "no such file");
    expect_error(list_read_file(&list, folder, 0), "is a folder");
}
END_TEST

START_TEST(folders_are_classes_in_the_order_of_their_names)
{
    struct list list;

    expect_error(list_read_folder(&list, folder, NULL), "holds no folders");
    ck_assert_int_eq(mkdir(in_folder("dog"), 0700), 0);
    expect_error(list_read_folder(&list, folder, NULL), "only one folder, 'dog'",
                 "a folder for every class");
    ck_assert_int_eq(mkdir(in_folder("cat"), 0700) | mkdir(in_folder(".git"), 0700) |
                         mkdir(in_folder("cow"), 0700),
                     0);
    expect_error(list_read_folder(&list, folder, NULL), "hold no files");
    file_put("dog/1.jpg", "", 0);
    file_put("dog/.hidden", "", 0);
    file_put("cat/b.jpg", "", 0);
    file_put("cat/a b.png", "", 0);
    file_put("readme.txt", "", 0);
    expect_ok(list_read_folder(&list, folder, NULL));
    ck_assert_uint_eq(list.count, 3);
    ck_assert_int_eq(list.classes.count, 3);
    ck_assert_str_eq(list.classes.name[0], "cat");
    ck_assert_str_eq(list.classes.name[1], "cow");
    ck_assert_str_eq(list_path(&list, 0), "cat/a b.png");
    ck_assert_str_eq(list_path(&list, 1), "cat/b.jpg");
    ck_assert_str_eq(list_path(&list, 2), "dog/1.jpg");
    ck_assert(list.label[0] == 0 && list.label[1] == 0 && list.label[2] == 2);
    list_free(&list);
    expect_error(list_read_folder(&list, in_folder("none"), NULL), "none", "No such file");
}
END_TEST

START_TEST(an_image_list_gives_decoded_resized_images)
{
    struct image_list_options o = {
        .root = "images/", .height = 10, .width = 10, .color = IMAGE_COLOR, .base_file = NULL};
    const char *text = "color.png 4\ngray.jpg 5\nnowhere.jpg 6\nbroken.jpg 7\n";
    struct source *source;
    char base[1100];

    if (!BUILT_JPEG || !BUILT_PNG)
        return;
    file_put("list.txt", text, strlen(text));
    expect_error(source_open_image_list(in_folder("list.txt"), &o, &source), "list.txt, image 0",
                 "images/color.png", "no such file");
    snprintf(base, sizeof base, "%s", fixture("solver.prototxt"));
    o.base_file = base; /* the root is beside it */
    expect_ok(source_open_image_list(in_folder("list.txt"), &o, &source));
    ck_assert_uint_eq(source->nrecords, 4);
    check_shape(&source->field[0].shape, 3, 10, 10);
    expect_ok(source_read_record(source, 1, &record));
    check_shape(&record.shape, 3, 10, 10);
    ck_assert_float_eq(record.label, 5);
    expect_error(source_read_record(source, 2, &record), "list.txt, image 2", "nowhere.jpg",
                 "no such file");
    source_close(source);
    file_put("broken.jpg", "\xff\xd8\xff\xe0 and no more", 16);
    file_put("list.txt", "broken.jpg 7\n", 13);
    snprintf(base, sizeof base, "%s/", folder);
    o.root = base;
    expect_error(source_open_image_list(in_folder("list.txt"), &o, &source), "list.txt, image 0",
                 "broken.jpg", "JPEG");
}
END_TEST

SUITE("input_lists")
{
    TCase *tcase = suite_case(suite, "lists");

    tcase_add_checked_fixture(tcase, folder_make, clean_up);
    tcase_add_test(tcase, lists_are_cut_at_the_last_blank);
    tcase_add_test(tcase, bad_lists_name_file_and_line);
    tcase_add_test(tcase, folders_are_classes_in_the_order_of_their_names);
    tcase_add_test(tcase, an_image_list_gives_decoded_resized_images);
}
