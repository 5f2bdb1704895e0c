/* The commands that look at specs, run as a user runs them: standard output, standard error, exit
 * status. None of them may touch data: the sources named here do not exist. */
#include <check.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/poseidon_commands_XXXXXX";

struct ran {
    int status;
    char out[32768], err[8192];
};

static void read_file(const char *name, char *text, size_t size)
{
    FILE *file = fopen(name, "rb");
    size_t length;

    ck_assert_msg(file != NULL, "%s is missing", name);
    length = fread(text, 1, size - 1, file);
    text[length] = '\0';
    fclose(file);
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(name, "wb");

    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(text, 1, strlen(text), file), strlen(text));
    ck_assert_int_eq(fclose(file), 0);
}

/* Runs poseidon with these arguments in the test's own folder. */
static const struct ran *run(const char *arguments)
{
    static struct ran ran;
    const char *program = getenv("POSEIDON");
    char command[2048];
    int status;

    ck_assert_msg(program != NULL, "POSEIDON is not set: run this through make check");
    snprintf(command, sizeof command, "'%s' %s >out 2>err", program, arguments);
    status = system(command);
    ck_assert_msg(WIFEXITED(status), "%s: ended by signal %d", arguments, WTERMSIG(status));
    ran.status = WEXITSTATUS(status);
    read_file("out", ran.out, sizeof ran.out);
    read_file("err", ran.err, sizeof ran.err);
    return &ran;
}

static void assert_ran(const struct ran *ran, int status, const char *out, const char *err)
{
    ck_assert_str_eq(ran->err, err);
    ck_assert_str_eq(ran->out, out);
    ck_assert_int_eq(ran->status, status);
}

static const char net[] =
    "name: 'small'\n"
    "layer { name: 'data' type: 'Data' top: 'data' top: 'label'\n"
    "  data_param { source: '/nowhere/train' batch_size: 4 backend: LMDB }\n"
    "  transform_param { mean_file: '/nowhere/mean' crop_size: 8 } include { phase: TRAIN } }\n"
    "layer { name: 'data' type: 'Data' top: 'data' top: 'label'\n"
    "  data_param { source: '/nowhere/test' batch_size: 2 } include { phase: TEST } }\n"
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'conv'\n"
    "  convolution_param { num_output: 2 kernel_size: 3 } include { not_stage: 'flat' } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'conv' top: 'ip'\n"
    "  inner_product_param { num_output: 5 } include { not_stage: 'flat' } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'data' top: 'ip'\n"
    "  inner_product_param { num_output: 5 } include { stage: 'flat' max_level: 1 } }\n"
    "layer { name: 'acc' type: 'Accuracy' bottom: 'ip' bottom: 'label' top: 'acc'\n"
    "  include { phase: TEST } }\n"
    "layer { name: 'loss' type: 'SoftmaxWithLoss' bottom: 'ip' bottom: 'label' top: 'a_loss' }\n";

START_TEST(summary_is_a_table)
{
    write_file("net.prototxt", net);
    assert_ran(run("summary --model=net.prototxt"), 0,
               "layer  type             top     shape          parameters    FLOPs\n"
               "------------------------------------------------------------------\n"
               "data   Data             data    4 x 3 x 8 x 8\n"
               "                        label   4\n"
               "conv   Convolution      conv    4 x 2 x 6 x 6          56  15.55 k\n"
               "ip     InnerProduct     ip      4 x 5                 365   2.88 k\n"
               "loss   SoftmaxWithLoss  a_loss  scalar                         100\n"
               "------------------------------------------------------------------\n"
               "total                                                 421  18.53 k\n",
               "layer 'data': assuming images of 3 channels, 8 x 8 pixels (crop_size); --input-shape=C,H,W says otherwise\n");
}
END_TEST

/* A file of the source tree, whole. */
static const char *golden(const char *name)
{
    static char text[32768];
    char path[1024];

    ck_assert_msg(getenv("abs_top_srcdir") != NULL, "abs_top_srcdir is not set");
    snprintf(path, sizeof path, "%s/tests/data/spec/%s", getenv("abs_top_srcdir"), name);
    read_file(path, text, sizeof text);
    return text;
}

START_TEST(summary_as_json_lists_splits_and_sorted_outputs)
{
    write_file("net.prototxt", net);
    assert_ran(run("summary --model net.prototxt --phase TEST --input-shape=1,4,5 --json"), 0,
               golden("summary.json"), "");
}
END_TEST

START_TEST(summary_obeys_stage_level_and_batch)
{
    const char *found;

    write_file("net.prototxt", net);
    found = run("summary --model=net.prototxt --stage=flat,x --level=1 --batch=3 --json")->out;
    ck_assert_ptr_null(strstr(found, "Convolution"));
    ck_assert_ptr_nonnull(strstr(found, "\"shape\": [3, 3, 8, 8]"));
    ck_assert_ptr_nonnull(strstr(found, "\"parameters\": 965,"));
}
END_TEST

static const struct {
    const char *arguments, *err;
} summary_errors[] = {
    {"", "poseidon summary: Need a model definition: --model=FILE\n"},
    {"--model=none", "poseidon summary: File not found: none\n"},
    {"--model=net.prototxt --phase=BOTH",
     "poseidon summary: --phase=BOTH is not known (TRAIN or TEST)\n"},
    {"--model=net.prototxt --input-shape=3,224",
     "poseidon summary: --input-shape wants C,H,W such as 3,224,224, found '3,224'\n"},
    {"--model=net.prototxt --level=2 --stage=flat",
     "poseidon summary: net.prototxt:15: layer 'loss': Unknown bottom blob 'ip' (layer 'loss', "
     "bottom index 0)\n"},
};

START_TEST(summary_says_what_is_wrong_and_prints_nothing)
{
    char arguments[256];

    write_file("net.prototxt", net);
    snprintf(arguments, sizeof arguments, "summary %s", summary_errors[_i].arguments);
    assert_ran(run(arguments), 1, "", summary_errors[_i].err);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("commands");
    TCase *tcase = tcase_create("commands");
    SRunner *runner;
    int failed;

    if (mkdtemp(folder) == NULL || chdir(folder))
        return EXIT_FAILURE;
    suite_add_tcase(suite, tcase);
    tcase_set_timeout(tcase, 60);
    tcase_add_test(tcase, summary_is_a_table);
    tcase_add_test(tcase, summary_as_json_lists_splits_and_sorted_outputs);
    tcase_add_test(tcase, summary_obeys_stage_level_and_batch);
    tcase_add_loop_test(tcase, summary_says_what_is_wrong_and_prints_nothing, 0,
                        (int)(sizeof summary_errors / sizeof *summary_errors));
    runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    (void)!system("rm -f ./* && rmdir \"$PWD\"");
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
