/* poseidon extract, test and classify. */
#include <hdf5.h>
#include <stdbool.h>
#include <unistd.h>

#include "tests/commands/command_runner.h"
#include "tests/suite.h"

static char folder[] = "/tmp/poseidon_extract_XXXXXX";

/* Five images of 4 x 4 counting on from 0, with labels 0 to 4, and a list that names them. */
static void write_images(void)
{
    const hsize_t dim[] = {5, 1, 4, 4}, count = 5;
    hid_t file = H5Fcreate("images.h5", H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT), space, set;
    float values[80], labels[5];

    for (int i = 0; i < 80; i++)
        values[i] = (float)i;
    for (int i = 0; i < 5; i++)
        labels[i] = (float)i;
    space = H5Screate_simple(4, dim, NULL);
    set = H5Dcreate2(file, "data", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert_int_ge(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
    H5Dclose(set);
    H5Sclose(space);
    space = H5Screate_simple(1, &count, NULL);
    set = H5Dcreate2(file, "label", H5T_NATIVE_FLOAT, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert_int_ge(H5Dwrite(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, labels), 0);
    H5Dclose(set);
    H5Sclose(space);
    H5Fclose(file);
    write_file("list", "images.h5\n");
}

static void read_set(const char *name, int rank, const hsize_t *expected, float *values)
{
    hid_t file = H5Fopen("out.h5", H5F_ACC_RDONLY, H5P_DEFAULT), set, space;
    hsize_t dim[8];

    ck_assert_int_ge(file, 0);
    set = H5Dopen2(file, name, H5P_DEFAULT);
    space = H5Dget_space(set);
    ck_assert_int_eq(H5Sget_simple_extent_dims(space, dim, NULL), rank);
    for (int i = 0; i < rank; i++)
        ck_assert_uint_eq(dim[i], expected[i]);
    ck_assert_int_ge(H5Dread(set, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
    H5Sclose(space);
    H5Dclose(set);
    H5Fclose(file);
}

static const char features[] =
    "layer { name: 'd' type: 'HDF5Data' top: 'data' top: 'label' hdf5_data_param { source: 'list' "
    "batch_size: 3 } }\n"
    "layer { name: 'conv' type: 'Convolution' bottom: 'data' top: 'a/conv' convolution_param { "
    "num_output: 2 kernel_size: 3 } }\n"
    "layer { name: 'ip' type: 'InnerProduct' bottom: 'a/conv' top: 'ip' inner_product_param { "
    "num_output: 1 } }\n";

/* Weights 1..9 and bias 1/2, then their negatives and -1/4; all ones and 3: see generate_models.py.
 */
START_TEST(extracted_features_are_those_of_the_net)
{
    const hsize_t conv_dim[] = {6, 2, 2, 2}, ip_dim[] = {6, 1}, label_dim[] = {6};
    float conv[48], ip[6], label[6];
    char arguments[1024];

    write_images();
    write_file("net.prototxt", features);
    snprintf(arguments, sizeof arguments,
             "extract --model=net.prototxt --weights='%s/tests/data/spec/today.caffemodel' "
             "--blobs=a/conv,ip,label --iterations=2 out.h5",
             getenv("abs_top_srcdir"));
    ck_assert_str_eq(run(arguments)->out,
                     "out.h5: a/conv, 6 rows\nout.h5: ip, 6 rows\nout.h5: label, 6 rows\n");
    read_set("a/conv", 4, conv_dim, conv);
    read_set("ip", 2, ip_dim, ip);
    read_set("label", 1, label_dim, label);
    for (int n = 0; n < 6; n++) {
        ck_assert_float_eq(label[n], (float)(n % 5)); /* the sixth image is the first again */
        for (int i = 0; i < 4; i++) {
            /* 45 is the sum of the weights, 303 what they make of 0 1 2, 4 5 6, 8 9 10 */
            float sum = 303 + 45 * (float)(16 * (n % 5) + 4 * (i / 2) + i % 2);

            ck_assert_float_eq_tol(conv[8 * n + i], sum + 0.5f, 1e-2);
            ck_assert_float_eq_tol(conv[8 * n + 4 + i], -sum - 0.25f, 1e-2);
        }
        ck_assert_float_eq_tol(ip[n], 4 * (0.5f - 0.25f) + 3, 5e-2);
    }
    ck_assert_int_ne(access("out.h5.tmp", F_OK), 0);
}
END_TEST

START_TEST(training_an_old_net_says_so_once)
{
    const char *notice = "net.prototxt: upgraded from the old form of Caffe's nets (layers)\n",
               *found;

    write_images();
    write_file(
        "net.prototxt",
        "layers { name: 'd' type: HDF5_DATA top: 'data' top: 'label' hdf5_data_param { source: "
        "'list' batch_size: 5 } }\n"
        "layers { name: 'ip' type: INNER_PRODUCT bottom: 'data' top: 'ip' blobs_lr: 1 "
        "inner_product_param { num_output: 1 } }\n"
        "layers { name: 'loss' type: EUCLIDEAN_LOSS bottom: 'ip' bottom: 'label' top: 'l' }\n");
    write_file("solver.prototxt",
               "net: 'net.prototxt' solver_type: NESTEROV base_lr: 1e-5 lr_policy: "
               "'fixed' max_iter: 1 test_iter: 1 test_interval: 1");
    ck_assert_int_eq(run("train --solver=solver.prototxt")->status, 0);
    found = strstr(run("train --solver=solver.prototxt")->err, notice);
    ck_assert_ptr_nonnull(found);
    ck_assert_ptr_null(strstr(found + 1, notice));
    /* and, where nothing is said, snapshots have Caffe's binary form */
    ck_assert_int_eq(access("solver_iter_1.caffemodel", F_OK), 0);
    ck_assert_ptr_nonnull(strstr(run("test --model=net.prototxt --weights=solver_iter_1.caffemodel "
                                     "--iterations=1")
                                     ->err,
                                 notice));
}
END_TEST

static const struct {
    const char *arguments, *err;
} extract_errors[] = {
    {"", "poseidon extract: Need a model definition: --model=FILE\n"},
    {"--model=net.prototxt --blobs=ip new.h5",
     "poseidon extract: Need model weights: --weights=FILE\n"},
    {"--model=net.prototxt --weights=w",
     "poseidon extract: Need the names of blobs: --blobs=LIST\n"},
    {"--model=net.prototxt --weights=w --blobs=ip",
     "poseidon extract: expected one file to write, OUT.h5\n"},
    {"--model=net.prototxt --weights=w --blobs=ip new.h5", "poseidon extract: w: no such file"},
    {"--model=net.prototxt --weights=W --blobs=pi new.h5",
     "poseidon extract: --blobs: the net's TEST phase has no blob 'pi' (poseidon summary "
     "--phase=TEST "
     "lists them)\n"},
    {"--model=net.prototxt --weights=W --blobs=, new.h5",
     "poseidon extract: --blobs names no blob\n"},
    {"--model=net.prototxt --weights=W --blobs=ip,ip new.h5",
     "poseidon extract: new.h5: cannot make data set 'ip'"},
    {"--model=net.prototxt --weights=W --blobs=ip /nowhere/new.h5",
     "poseidon extract: /nowhere/new.h5 cannot be written: folder /nowhere: No such file"},
};

START_TEST(extract_says_what_is_wrong_and_writes_nothing)
{
    const struct ran *ran;
    char arguments[256];

    write_images();
    write_file("net.prototxt", features);
    copy_weights();
    snprintf(arguments, sizeof arguments, "extract %s", extract_errors[_i].arguments);
    ran = run(arguments);
    ck_assert_int_eq(ran->status, 1);
    ck_assert_str_eq(ran->out, "");
    ck_assert_msg(strstr(ran->err, extract_errors[_i].err) != NULL, "%s", ran->err);
    ck_assert_int_ne(access("new.h5", F_OK), 0);
    ck_assert_int_ne(access("new.h5.tmp", F_OK), 0);
}
END_TEST

/* Class scores are the mean blue, green and red of the picture, by global pooling; no weights. */
static const char colours[] =
    "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: [2, 3, 4, 4] } } }\n"
    "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' pooling_param { pool: AVE "
    "global_pooling: "
    "true } }\n"
    "layer { name: 's' type: 'Softmax' bottom: 'p' top: 's' }\n";

/* Three images of one colour each, by Python; false where there is no way to make them. */
static bool write_pictures(void)
{
    static const char script[] =
        "import struct, zlib\n"
        "def chunk(kind, data):\n"
        "    return (struct.pack('>I', len(data)) + kind + data +\n"
        "            struct.pack('>I', zlib.crc32(kind + data)))\n"
        "for name, colour in (('red', b'\\x04\\x02\\x01'), ('green', b'\\x02\\x03\\x00'),\n"
        "                     ('blue', b'\\x00\\x00\\x02')):\n"
        "    with open(name + '.png', 'wb') as f:\n"
        "        f.write(b'\\x89PNG\\r\\n\\x1a\\n' +\n"
        "                chunk(b'IHDR', struct.pack('>IIBBBBB', 9, 7, 8, 2, 0, 0, 0)) +\n"
        "                chunk(b'IDAT', zlib.compress((b'\\0' + colour * 9) * 7)) + chunk(b'IEND', "
        "b''))\n";

    write_file("make.py", script);
    return system("python3 make.py 2>stderr") == 0;
}

/* This build may be without PNG. */
static bool can_classify(void)
{
    if (!write_pictures()) {
        puts("no python3 to make pictures with: not tested");
        return false;
    }
    write_file("net.prototxt", colours);
    write_file("labels", "the blue\nthe green\nthe red\n\n"); /* and a blank line */
    copy_weights();
    if (strstr(run("classify --model=net.prototxt --weights=W red.png")->err, "built without") !=
        NULL) {
        puts("this build reads no PNG: not tested");
        return false;
    }
    return true;
}

START_TEST(classes_are_printed_with_their_probabilities)
{
    /* softmax of (1, 2, 4), (0, 3, 2) and (2, 0, 0) */
    if (can_classify())
        ck_assert_str_eq(run("classify --model=net.prototxt --weights=W --labels=labels red.png "
                             "green.png blue.png --top=2")
                             ->out,
                         "---------- Prediction for red.png ----------\n"
                         "0.8438 - \"the red\"\n0.1142 - \"the green\"\n"
                         "---------- Prediction for green.png ----------\n"
                         "0.7054 - \"the green\"\n0.2595 - \"the red\"\n"
                         "---------- Prediction for blue.png ----------\n"
                         "0.7870 - \"the blue\"\n0.1065 - \"the green\"\n");
}
END_TEST

START_TEST(a_folder_is_its_images_in_the_order_of_their_names)
{
    const struct ran *ran;
    static const char *const names[] = {"p/a.png", "p/b.png", "p/in/c.png", "red.png"};
    const char *at;

    if (!can_classify())
        return;
    ck_assert_int_eq(system("mkdir -p p/in p/none && cp red.png p/b.png && cp green.png p/a.png && "
                            "cp blue.png p/in/c.png && cp labels p/.labels"),
                     0);
    ran = run("classify --model=net.prototxt --weights=W --top=1 p/ red.png");
    ck_assert_int_eq(ran->status, 0);
    at = ran->out;
    for (int i = 0; i < 4; i++) {
        at = strstr(at, "Prediction for ");
        ck_assert_ptr_nonnull(at);
        at += strlen("Prediction for ");
        ck_assert_msg(!strncmp(at, names[i], strlen(names[i])), "%s", at);
    }
    ck_assert_ptr_null(strstr(at, "Prediction"));
    ck_assert_ptr_null(strstr(ran->err, "images/s")); /* no terminal */
    ran = run("classify --model=net.prototxt --weights=W p/none");
    assert_ran(ran, 1, "", "poseidon classify: p/none: no files in it; expected images\n");
}
END_TEST

START_TEST(a_terminal_shows_progress)
{
    if (!can_classify())
        return;
    write_file("terminal.py", "import os, pty, subprocess, sys\n"
                              "ours, theirs = pty.openpty()\n"
                              "done = subprocess.run(sys.argv[1:], stderr=theirs, "
                              "stdout=subprocess.DEVNULL)\n"
                              "os.close(theirs)\n"
                              "sys.stdout.write(os.read(ours, 10000).decode())\n"
                              "sys.exit(done.returncode)\n");
    ck_assert_int_eq(system("python3 terminal.py \"$POSEIDON\" classify --model=net.prototxt "
                            "--weights=W red.png green.png >shown"),
                     0);
    ck_assert_int_eq(system("grep -q '1 of 2 images (50.0 %), .* left' shown"), 0);
}
END_TEST

START_TEST(pixels_lose_the_mean_and_are_scaled)
{
    if (!can_classify())
        return;
    /* (1, 2, 4) - (1, 2, 3) = (0, 0, 1), halved */
    ck_assert_str_eq(
        run("classify --model=net.prototxt --weights=W --mean=1,2,3 --scale=0.5 --top=1 "
            "--resize=4x4 red.png")
            ->out,
        "---------- Prediction for red.png ----------\n0.4519 - class 2\n");
    /* red, green, blue: (4, 2, 1) - 4 */
    ck_assert_str_eq(run("classify --model=net.prototxt --weights=W --mean=4 --top=1 --rgb "
                         "red.png")
                         ->out,
                     "---------- Prediction for red.png ----------\n0.8438 - class 0\n");
}
END_TEST

/* 400 x 200, of which the left eighth is 200 and the rest 0; the score is the input's mean. What is
 * left of the eighth: 4 of 200 columns where the whole is squashed to 256 x 256 and 28 are cut off,
 * 25 of 200 where it is resized to the input's size, none of the middle half. */
static const struct {
    const char *options;
    double least, most;
} crops[] = {{"", 3.5, 4.5},
             {"--resize=256x256", 3.5, 4.5},
             {"--resize=200x200", 24.5, 25.5},
             {"--resize=400x200", 0, 0},
             {"--resize=200", 0, 0}};

START_TEST(an_image_is_squashed_before_its_centre_is_cut_out)
{
    char arguments[512];
    const struct ran *ran;
    double score = -1;

    if (!can_classify())
        return;
    write_file("make.py", "import struct, zlib\n"
                          "def chunk(kind, data):\n"
                          "    return (struct.pack('>I', len(data)) + kind + data +\n"
                          "            struct.pack('>I', zlib.crc32(kind + data)))\n"
                          "row = b'\\0' + b'\\xc8' * 150 + b'\\0' * 1050\n"
                          "with open('wide.png', 'wb') as f:\n"
                          "    f.write(b'\\x89PNG\\r\\n\\x1a\\n' +\n"
                          "            chunk(b'IHDR', struct.pack('>IIBBBBB', 400, 200, 8, 2, 0, "
                          "0, 0)) +\n"
                          "            chunk(b'IDAT', zlib.compress(row * 200)) + chunk(b'IEND', "
                          "b''))\n");
    ck_assert_int_eq(system("python3 make.py"), 0);
    write_file("net.prototxt",
               "layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: [1, 3, 200, "
               "200] } } }\n"
               "layer { name: 'p' type: 'Pooling' bottom: 'x' top: 'p' pooling_param { pool: AVE "
               "global_pooling: true } }\n");
    snprintf(arguments, sizeof arguments,
             "classify --model=net.prototxt --weights=W --blob=p --top=1 %s wide.png",
             crops[_i].options);
    ran = run(arguments);
    ck_assert_msg(
        sscanf(ran->out, "---------- Prediction for wide.png ----------\n%lf - class", &score) == 1,
        "%s%s", ran->out, ran->err);
    ck_assert_msg(score >= crops[_i].least && score <= crops[_i].most, "%s: %g", arguments, score);
}
END_TEST

START_TEST(channels_means_come_from_a_mean_image)
{
    if (!can_classify())
        return;
    /* one blob of 3 x 1 x 1: 1, 2, 3 */
    ck_assert_int_eq(
        system("printf 'num: 1 channels: 3 height: 1 width: 1 data: [1, 2, 3]' >mean.txt"), 0);
    if (system("protoc --version >/dev/null 2>&1") == 0) {
        char command[1024];

        snprintf(command, sizeof command,
                 "protoc -I'%s/src/nn/spec' --encode=caffe.BlobProto caffe.proto <mean.txt "
                 ">mean.binaryproto",
                 getenv("abs_top_srcdir"));
        ck_assert_int_eq(system(command), 0);
        ck_assert_str_eq(run("classify --model=net.prototxt --weights=W --mean=mean.binaryproto "
                             "--scale=0.5 --top=1 red.png")
                             ->out,
                         "---------- Prediction for red.png ----------\n0.4519 - class 2\n");
    }
    ck_assert_ptr_nonnull(strstr(run("classify --model=net.prototxt --weights=W --mean=mean.txt "
                                     "red.png")
                                     ->err,
                                 "mean.txt: expected a blob (.binaryproto), found a text\n"));
}
END_TEST

START_TEST(images_that_cannot_be_read_are_named_and_the_others_classified)
{
    const struct ran *ran;

    if (!can_classify())
        return;
    ran =
        run("classify --model=net.prototxt --weights=W none.png red.png labels green.png blue.png "
            "--top=1 --json");
    ck_assert_int_eq(ran->status, 1);
    for (int i = 0; i < 3; i++) {
        static const char *const parts[] = {
            "[{\n    \"image\": \"red.png\",\n    \"top\": [{\n    "
            "    \"class\": 2,\n        \"number\": 2,\n"
            "        \"label\": null,\n        \"probability\": 0.8437",
            "\"green.png\",\n    \"top\": [{\n        \"class\": "
            "1,\n        \"number\": 1,\n        \"label\": null,\n        "
            "\"probability\": 0.7053",
            "\"blue.png\",\n    \"top\": [{\n        \"class\": "
            "0,\n        \"number\": 0,\n        \"label\": null,\n        "
            "\"probability\": 0.7869"};

        ck_assert_msg(strstr(ran->out, parts[i]) != NULL, "%s", ran->out);
    }
    ck_assert_ptr_nonnull(strstr(ran->err, "none.png"));
    ck_assert_ptr_nonnull(strstr(ran->err, "labels: not an image"));
    ck_assert_ptr_nonnull(strstr(ran->err, "poseidon classify: 2 of 5 images could not be read\n"));
}
END_TEST

static const struct {
    const char *net, *arguments, *err;
} classify_errors[] = {
    {colours, "", "Need a model definition: --model=FILE"},
    {colours, "--model=net.prototxt", "Need model weights: --weights=FILE"},
    {colours, "--model=net.prototxt --weights=W", "expected images to classify, found none"},
    {colours, "--model=net.prototxt --weights=W --blob=z x.png",
     "--blob: the net's TEST phase has no blob 'z'"},
    {colours, "--model=net.prototxt --weights=W --labels=short x.png",
     "short: expected 3 class names, one per line, found 1 ('one' to 'one')"},
    {colours, "--model=net.prototxt --weights=W --labels=long x.png",
     "long: expected 3 class names, one per line, found 4 ('background' to 'red')"},
    {colours, "--model=net.prototxt --weights=W --labels=map x.png",
     "map: expected a text with the name of a class on every line, or images that poseidon convert "
     "wrote, found a label map of an object detector: write its display_name values, one a line"},
    {colours, "--model=net.prototxt --weights=W --labels=none x.png", "none: no such file"},
    {colours, "--model=net.prototxt --weights=W --resize=3x9 x.png",
     "--resize=3x9: expected WIDTHxHEIGHT such as 256x256, or the shorter side's length, at least "
     "the input's 4x4"},
    {colours, "--model=net.prototxt --weights=W --resize=2 x.png", "--resize=2: expected WIDTH"},
    {colours, "--model=net.prototxt --weights=W --squeeze x.png",
     "unknown option --squeeze: --resize=WIDTHxHEIGHT of the input"},
    {"layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: [1, 1, 4, 4] } } }\n"
     "layer { name: 'own' type: 'InnerProduct' bottom: 'x' top: 'y' inner_product_param { "
     "num_output: 2 } }\n"
     "layer { name: 's' type: 'Softmax' bottom: 'y' top: 's' }\n",
     "--model=net.prototxt --weights=W --json x.png",
     "W: holds no layer named as one of the net's 1 layer with parameters; expected weights of "
     "this net"},
    {"layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: [1, 1, 4, 4] } } }\n"
     "layer { name: 'conv' type: 'Convolution' bottom: 'x' top: 'c' convolution_param { "
     "num_output: 2 kernel_size: 3 } }\n"
     "layer { name: 'own' type: 'InnerProduct' bottom: 'c' top: 'y' inner_product_param { "
     "num_output: 2 } }\n"
     "layer { name: 's' type: 'Softmax' bottom: 'y' top: 's' }\n",
     "--model=net.prototxt --weights=W x.png",
     "W: has no layer 'own', so its parameters would be random; expected weights "
     "for every layer"},
    {colours, "--model=net.prototxt --weights=W --mean=x,y x.png",
     "--mean: expected one number, three such as 104,117,123, or the file of a mean image; found "
     "'x,y'"},
    {"layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: [2, 5] } } }",
     "--model=net.prototxt --weights=W x.png",
     "expected an input of N x 1 or 3 x H x W, found 'x' of shape 2 5 (10)"},
    {"layer { name: 'in' type: 'Input' top: 'x' input_param { shape { dim: [2, 1, 4, 4] } } }",
     "--model=net.prototxt --weights=W x.png",
     "the net has no Softmax; expected --blob=NAME, the blob of its scores"},
    {"layer { name: 'in' type: 'Input' top: 'x' top: 'y' input_param { shape { dim: [2, 1, 4, 4] } "
     "} "
     "}\nlayer { name: 'e' type: 'Eltwise' bottom: 'x' bottom: 'y' top: 'z' }\n"
     "layer { name: 's' type: 'Softmax' bottom: 'z' top: 's' }\n",
     "--model=net.prototxt --weights=W x.png",
     "net.prototxt:1: layer 'in': the input 'y' would be zeros: classify gives photographs to 'x' "
     "alone"},
    {"layer { name: 'v' type: 'Parameter' top: 'v' parameter_param { shape { dim: 1 } } }",
     "--model=net.prototxt --weights=W x.png",
     "expected a net that begins with its input, a layer of type Input"},
};

START_TEST(classify_says_what_is_wrong)
{
    const struct ran *ran;
    char arguments[256];

    write_file("net.prototxt", classify_errors[_i].net);
    write_file("short", "one\n");
    write_file("long", "background\nblue\ngreen\nred\n");
    write_file("map", "item {\n  name: \"none_of_the_above\"\n  label: 0\n  display_name: "
                      "\"background\"\n}\n");
    copy_weights();
    snprintf(arguments, sizeof arguments, "classify %s", classify_errors[_i].arguments);
    ran = run(arguments);
    ck_assert_int_eq(ran->status, 1);
    ck_assert_str_eq(ran->out, "");
    ck_assert_msg(strstr(ran->err, classify_errors[_i].err) != NULL, "%s", ran->err);
}
END_TEST

SUITE_IN(folder, "extract_classify")
{
    TCase *tcase = suite_case(suite, "extract_classify");

    if (chdir(folder))
        abort();
    tcase_add_test(tcase, extracted_features_are_those_of_the_net);
    tcase_add_test(tcase, training_an_old_net_says_so_once);
    tcase_add_loop_test(tcase, extract_says_what_is_wrong_and_writes_nothing, 0,
                        (int)(sizeof extract_errors / sizeof *extract_errors));
    tcase_add_test(tcase, classes_are_printed_with_their_probabilities);
    tcase_add_test(tcase, a_folder_is_its_images_in_the_order_of_their_names);
    tcase_add_test(tcase, a_terminal_shows_progress);
    tcase_add_test(tcase, pixels_lose_the_mean_and_are_scaled);
    tcase_add_loop_test(tcase, an_image_is_squashed_before_its_centre_is_cut_out, 0,
                        (int)(sizeof crops / sizeof *crops));
    tcase_add_test(tcase, channels_means_come_from_a_mean_image);
    tcase_add_test(tcase, images_that_cannot_be_read_are_named_and_the_others_classified);
    tcase_add_loop_test(tcase, classify_says_what_is_wrong, 0,
                        (int)(sizeof classify_errors / sizeof *classify_errors));
}
