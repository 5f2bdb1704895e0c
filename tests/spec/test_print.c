/* Messages and values as text. */
#include "spec/print.h"
#include "spec/caffe.pb-c.h"
#include "spec/field.h"
#include "spec/text.h"
#include "tests/suite.h"

#include <check.h>
#include <string.h>

START_TEST(numbers_are_printed_in_their_shortest_form)
{
    static const struct {
        float value;
        const char *text;
    } cases[] = {{0.1f, "0.1"},
                 {1, "1"},
                 {-0.0f, "-0"},
                 {1e10f, "1e+10"},
                 {0.75f, "0.75"},
                 {5e-4f, "0.0005"},
                 {1.0f / 3, "0.33333334"},
                 {16777216, "16777216"},
                 {3.4028235e38f, "3.4028235e+38"}};
    const ProtobufCMessageDescriptor *blob = &caffe__blob_proto__descriptor;
    struct strbuf out = {0};

    for (int i = 0; i < COUNT(cases); i++) {
        strbuf_clear(&out);
        print_value(&out, message_find_field(blob, "data"), &cases[i].value);
        ck_assert_str_eq(strbuf_text(&out), cases[i].text);
    }
    strbuf_clear(&out);
    print_value(&out, message_find_field(blob, "double_data"), &(double){0.1});
    ck_assert_str_eq(strbuf_text(&out), "0.1");
    strbuf_free(&out);
}
END_TEST

START_TEST(message_is_printed_as_people_write_it)
{
    static const char text[] =
        "layer < pooling_param: {kernel_size:2,pool:1}type:'Pooling',name:\"p'\\n\" >";
    struct strbuf out = {0};
    struct text_doc *doc;

    ck_assert_int_eq(
        text_read_string("F", text, strlen(text), &caffe__net_parameter__descriptor, &doc), 0);
    print_message(&out, text_root(doc));
    ck_assert_str_eq(strbuf_text(&out), "layer {\n"
                                        "  name: \"p\\'\\n\"\n"
                                        "  type: \"Pooling\"\n"
                                        "  pooling_param {\n"
                                        "    pool: AVE\n"
                                        "    kernel_size: 2\n"
                                        "  }\n"
                                        "}\n");
    strbuf_free(&out);
    text_free(doc);
}
END_TEST

SUITE("print")
{
    TCase *tcase = suite_case(suite, "print");

    tcase_add_test(tcase, numbers_are_printed_in_their_shortest_form);
    tcase_add_test(tcase, message_is_printed_as_people_write_it);
}
