/* The nets in models/: parameters as published, shapes as in the papers' tables, and one training
 * step on two ranks. Nets of more than 30 million parameters take that step only where
 * POSEIDON_TEST_LARGE is set: they need up to 10 GB. */
#include "net/net.h"
#include "spec/print.h"
#include "spec/read.h"
#include "tests/suite.h"
#include "util/error.h"
#include "util/file.h"

#include <check.h>
#include <hdf5.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/poseidon_nets_XXXXXX";

static const struct {
    const char *name;
    size_t parameters;  /* as Caffe counts them: with the three blobs of a BatchNorm */
    size_t learned;     /* without those; 0 where there is no BatchNorm */
    int64_t input[3];   /* C, H, W of a training image */
    const char *shapes; /* "blob CxHxW; ..." */
    const char *outputs, *test_outputs;
} models[] = {
    {"lenet",
     431080,
     0,
     {1, 28, 28},
     "conv1 20x24x24; pool1 20x12x12; conv2 50x8x8; pool2 50x4x4; "
     "ip1 500; ip2 10",
     "loss",
     "accuracy loss"},
    {"cifar10_quick",
     145578,
     0,
     {3, 32, 32},
     "pool1 32x16x16; pool2 32x8x8; pool3 64x4x4; ip1 64; "
     "ip2 10",
     "loss",
     "accuracy loss"},
    {"cifar10_full",
     89578,
     0,
     {3, 32, 32},
     "pool1 32x16x16; pool2 32x8x8; pool3 64x4x4; ip1 10",
     "loss",
     "accuracy loss"},
    {"alexnet",
     60965224,
     0,
     {3, 227, 227},
     "conv1 96x55x55; pool1 96x27x27; conv2 256x27x27; pool2 "
     "256x13x13; conv4 384x13x13; pool5 256x6x6; fc6 4096; fc8 1000",
     "loss",
     "accuracy loss"},
    {"caffenet",
     60965224,
     0,
     {3, 227, 227},
     "conv1 96x55x55; norm1 96x27x27; norm2 256x13x13; pool5 "
     "256x6x6; fc7 4096; fc8 1000",
     "loss",
     "accuracy loss"},
    {"nin",
     7595176,
     0,
     {3, 224, 224},
     "conv1 96x54x54; pool1 96x27x27; pool2 256x13x13; pool3 "
     "384x6x6; cccp8-1000 1000x6x6; pool4 1000x1x1",
     "loss",
     "accuracy loss"},
    {"googlenet",
     13378280,
     0,
     {3, 224, 224},
     "conv1/7x7_s2 64x112x112; pool1/3x3_s2 64x56x56; "
     "conv2/3x3 192x56x56; pool2/3x3_s2 192x28x28; inception_3a/output 256x28x28; "
     "inception_3b/output 480x28x28; pool3/3x3_s2 480x14x14; inception_4a/output 512x14x14; "
     "inception_4d/output 528x14x14; inception_4e/output 832x14x14; pool4/3x3_s2 832x7x7; "
     "inception_5b/output 1024x7x7; pool5/7x7_s1 1024x1x1; loss1/ave_pool 512x4x4; loss2/ave_pool "
     "528x4x4; loss3/classifier 1000",
     "loss1/loss1 loss2/loss1 loss3/loss3",
     "loss1/loss1 loss1/top-1 loss1/top-5 loss2/loss1 loss2/top-1 loss2/top-5 loss3/loss3 "
     "loss3/top-1 loss3/top-5"},
    {"vgg16",
     138357544,
     0,
     {3, 224, 224},
     "pool1 64x112x112; pool2 128x56x56; pool3 256x28x28; pool4 "
     "512x14x14; pool5 512x7x7; fc7 4096; fc8 1000",
     "loss",
     "loss top-1 top-5"},
    {"vgg19",
     143667240,
     0,
     {3, 224, 224},
     "conv3_4 256x56x56; conv5_4 512x14x14; pool5 512x7x7; fc8 "
     "1000",
     "loss",
     "loss top-1 top-5"},
    {"vgg19_22k",
     229052817,
     0,
     {3, 224, 224},
     "pool5 512x7x7; fc7 4096; fc8_22k 21841",
     "loss",
     "loss top-1 top-5"},
    {"inception_v3",
     27197584,
     27161264,
     {3, 299, 299},
     "conv1_3x3_s2 32x149x149; conv2_3x3 "
     "64x147x147; pool1_3x3_s2 64x73x73; conv4_3x3 192x71x71; pool2_3x3_s2 192x35x35; "
     "inception_a1/output 256x35x35; inception_a3/output 288x35x35; reduction_a/output 768x17x17; "
     "inception_b4/output 768x17x17; reduction_b/output 1280x8x8; inception_c2/output 2048x8x8; "
     "pool3_8x8_s1 2048x1x1; auxiliary/5x5 768x1x1; classifier 1000",
     "auxiliary/loss loss",
     "auxiliary/loss loss top-1 top-5"},
    /* the authors' file has 64 biases that the other implementations lack */
    {"resnet50",
     25610269,
     25557032 + 64,
     {3, 224, 224},
     "conv1 64x112x112; pool1 64x56x56; res2c "
     "256x56x56; res3d 512x28x28; res4f 1024x14x14; res5c 2048x7x7; pool5 2048x1x1; fc1000 1000",
     "loss",
     "loss top-1 top-5"},
    {"resnet152",
     60344387,
     60192808,
     {3, 224, 224},
     "res2c 256x56x56; res3b7 512x28x28; res4b35 "
     "1024x14x14; res5c 2048x7x7; fc1000 1000",
     "loss",
     "loss top-1 top-5"},
    {"squeezenet_v1.0",
     1248424,
     0,
     {3, 227, 227},
     "conv1 96x111x111; pool1 96x55x55; fire4/concat "
     "256x55x55; pool4 256x27x27; fire8/concat 512x27x27; pool8 512x13x13; conv10 1000x13x13; "
     "pool10 1000x1x1",
     "loss",
     "loss top-1 top-5"},
    {"squeezenet_v1.1",
     1235496,
     0,
     {3, 227, 227},
     "conv1 64x113x113; pool1 64x56x56; pool3 "
     "128x28x28; pool5 256x14x14; fire9/concat 512x14x14; pool10 1000x1x1",
     "loss",
     "loss top-1 top-5"},
    {"mobilenet_v1",
     4253891,
     4231976,
     {3, 224, 224},
     "conv1 32x112x112; conv2_2/sep 128x56x56; "
     "conv3_2/sep 256x28x28; conv4_2/sep 512x14x14; conv6/sep 1024x7x7; fc7 1000x1x1",
     "loss",
     "loss top-1 top-5"},
    /* AlexNet with 17 classes: 983 x 4097 parameters less */
    {"alexnet_flowers",
     60965224 - 983 * 4097,
     0,
     {3, 227, 227},
     "conv1 96x55x55; pool5 256x6x6; fc7 4096; fc8_flowers 17",
     "loss",
     "accuracy loss"},
    {"squeezenet_flowers",
     1248424 - 983 * 513,
     0,
     {3, 227, 227},
     "conv1 96x111x111; pool8 512x13x13; conv_flowers 17x13x13; pool_final 17x1x1",
     "loss",
     "accuracy loss"},
    /* 288 + 13824 + 36864 + 147456 + 3 x 589824 + 2560 weights; twice two values for each of 1152
     * channels */
    {"cifar10_fast",
     1970464 + 2 * 1152 + 2 * 1152 + 6,
     1970464 + 2 * 1152,
     {3, 34, 34},
     "whiten 24x31x31; pool1 64x15x15; conv2 64x15x15; pool3 256x7x7; pool5 256x3x3; conv6 "
     "256x3x3; "
     "pool 256x1x1; scores 10",
     "loss",
     "accuracy accuracy_one_view loss"},
    /* what its trained weights hold */
    {"resnet20_cifar10",
     274847,
     0,
     {3, 32, 32},
     "Convolution1 16x32x32; Eltwise4 32x16x16; Eltwise9 "
     "64x8x8; Pooling1 64x1x1; InnerProduct1 10",
     "loss",
     "accuracy loss"},
    /* as many weights as inputs x outputs x places of each kernel: 4704 + 18432 + 73728 + 294912 +
     * 589824 + 4369; two factors and twice a mean and a variance for each of 736 channels */
    {"photographs/small",
     985969 + 2 * 736 + 2 * 736 + 5,
     985969 + 2 * 736,
     {3, 224, 224},
     "conv1 32x56x56; pool1 32x28x28; conv2 64x28x28; conv3 128x14x14; conv5 256x7x7; pool "
     "256x1x1; classes 17",
     "loss",
     "accuracy loss"},
    {"photographs/squeezenet",
     1248424 - 983 * 513,
     0,
     {3, 227, 227},
     "conv1 96x111x111; pool8 512x13x13; conv_photographs 17x13x13; pool_final 17x1x1",
     "loss",
     "accuracy loss"},
};

struct made {
    struct text_doc *doc;
    struct net_def *def;
    struct net *net;
    char *notices;
};

/* Below the top of the sources: MODEL/train_val.prototxt and MODEL/solver.prototxt or, where a
 * folder has several nets, MODEL.prototxt and MODEL_solver.prototxt. */
static const char *net_name(int index)
{
    static char path[256];
    bool one_of_several = strchr(models[index].name, '/') != NULL;

    snprintf(path, sizeof path, "models/%s%s.prototxt", models[index].name,
             one_of_several ? "" : "/train_val");
    return path;
}

static const char *solver_name(int index)
{
    static char path[256];

    snprintf(path, sizeof path, "models/%s%csolver.prototxt", models[index].name,
             strchr(models[index].name, '/') ? '_' : '/');
    return path;
}

static const char *source_file(const char *name)
{
    static char path[1024];

    ck_assert_msg(getenv("abs_top_srcdir") != NULL, "abs_top_srcdir is not set");
    snprintf(path, sizeof path, "%s/%s", getenv("abs_top_srcdir"), name);
    return path;
}

static void make(struct made *made, int index, int phase)
{
    struct layer_env env = {.look_only = true, .nranks = 1, .seed = 1, .notices = &made->notices};

    made->notices = NULL;
    env.input_chw = models[index].input;
    ck_assert_msg(spec_read_net_of(source_file(net_name(index)), NULL, false, &made->doc) == 0,
                  "%s", error_text());
    ck_assert_str_eq(text_notices(made->doc), "");
    ck_assert_msg(net_def_create(made->doc, spec_net(made->doc), phase, NULL, &made->def) == 0,
                  "%s", error_text());
    ck_assert_msg(net_create(made->def, phase == CAFFE__PHASE__TRAIN, &env, NULL, &made->net) == 0,
                  "%s", error_text());
}

static void unmake(struct made *made)
{
    net_destroy(made->net);
    net_def_destroy(made->def);
    text_free(made->doc);
    free(made->notices);
}

static size_t learned(const struct net *net)
{
    size_t sum = 0;

    for (int g = 0; g < net->ngroups; g++)
        if (strcmp(net->layers[net->groups[g].layer].def->type, "BatchNorm") != 0)
            sum += net->groups[g].elems;
    return sum;
}

static void assert_outputs(const struct net *net, const char *expected)
{
    char found[512] = "";

    for (int i = 0; i < net->noutputs; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%s", i ? " " : "",
                 net->outputs[i].blob->name);
    ck_assert_str_eq(found, expected);
}

START_TEST(parameters_are_those_that_were_published)
{
    struct made made;

    for (int phase = 0; phase < 2; phase++) {
        make(&made, _i, phase == 0 ? CAFFE__PHASE__TRAIN : CAFFE__PHASE__TEST);
        ck_assert_uint_eq(made.net->nlearnable, models[_i].parameters);
        if (models[_i].learned > 0)
            ck_assert_uint_eq(learned(made.net), models[_i].learned);
        assert_outputs(made.net, phase == 0 ? models[_i].outputs : models[_i].test_outputs);
        unmake(&made);
    }
}
END_TEST

START_TEST(stages_have_the_sizes_of_the_papers_tables)
{
    char list[2048], *rest = list, *entry;
    struct made made;

    make(&made, _i, CAFFE__PHASE__TRAIN);
    snprintf(list, sizeof list, "%s", models[_i].shapes);
    while ((entry = strsep(&rest, ";")) != NULL) {
        char name[64], expected[64], found[64] = "";
        const struct blob *blob;

        ck_assert_int_eq(sscanf(entry, " %63s %63s", name, expected), 2);
        blob = net_find_blob(made.net, name);
        ck_assert_msg(blob != NULL, "%s: no blob %s", models[_i].name, name);
        for (int i = 1; i < blob->value.shape.naxes; i++)
            snprintf(found + strlen(found), sizeof found - strlen(found), "%s%d", i > 1 ? "x" : "",
                     (int)blob->value.shape.dim[i]);
        ck_assert_msg(strcmp(found, expected) == 0, "%s: %s is %s, expected %s", models[_i].name,
                      name, found, expected);
    }
    unmake(&made);
}
END_TEST

START_TEST(solver_names_its_net_and_trains)
{
    struct text_doc *doc;
    const Caffe__SolverParameter *solver;

    ck_assert_msg(spec_read_solver_with(source_file(solver_name(_i)),
                                        &(struct spec_overrides){.settings = NULL}, &doc) == 0,
                  "%s", error_text());
    solver = spec_solver(doc);
    ck_assert_str_eq(solver->net, net_name(_i));
    ck_assert_str_eq(text_notices(doc), "");
    ck_assert(solver->base_lr > 0 && solver->max_iter > 0 && solver->weight_decay > 0);
    ck_assert(solver->n_test_iter == 1 && solver->test_interval > 0);
    text_free(doc);
}
END_TEST

static void write_array(hid_t file, const char *name, hid_t type, int naxes, const hsize_t *dim,
                        const void *values)
{
    hid_t space = H5Screate_simple(naxes, dim, NULL);
    hid_t set = H5Dcreate2(file, name, type, space, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);

    ck_assert_int_ge(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values), 0);
    H5Dclose(set);
    H5Sclose(space);
}

/* Two images of noise with labels 0 and 1. */
static void write_images(const char *path, const int64_t input[3])
{
    hsize_t dim[4] = {2, (hsize_t)input[0], (hsize_t)input[1], (hsize_t)input[2]};
    size_t bytes = (size_t)(dim[0] * dim[1] * dim[2] * dim[3]);
    unsigned char *image = malloc(bytes);
    const int label[2] = {0, 1};
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    uint32_t noise = 1;

    ck_assert(image != NULL && file >= 0);
    for (size_t i = 0; i < bytes; i++) {
        noise = noise * 1664525 + 1013904223;
        image[i] = (unsigned char)(noise >> 24);
    }
    write_array(file, "data", H5T_NATIVE_UCHAR, 4, dim, image);
    write_array(file, "label", H5T_NATIVE_INT, 1, dim, label);
    H5Fclose(file);
    free(image);
}

static char *copy_text(const char *text)
{
    char *copy = strdup(text);

    ck_assert_ptr_nonnull(copy);
    return copy;
}

/* The model's net with these images, one a rank, as net.prototxt. */
static void write_net(int index, const char *images)
{
    struct strbuf out = {0};
    struct text_doc *doc;

    ck_assert_int_eq(spec_read_net_of(source_file(net_name(index)), NULL, false, &doc), 0);
    for (size_t i = 0; i < spec_net(doc)->n_layer; i++) {
        Caffe__LayerParameter *layer = spec_net(doc)->layer[i];

        if (strcmp(layer->type, "Data") != 0)
            continue;
        free(layer->data_param->source);
        layer->data_param->source = copy_text(images);
        layer->data_param->batch_size = 1;
        free(layer->transform_param->mean_file);
        layer->transform_param->mean_file = NULL;
    }
    print_message(&out, text_root(doc));
    ck_assert_int_eq(file_write("net.prototxt", strbuf_text(&out), out.length), 0);
    strbuf_free(&out);
    text_free(doc);
}

START_TEST(one_step_is_trained_on_two_ranks)
{
    static const char solver[] =
        "net: 'net.prototxt' base_lr: 1e-5 lr_policy: 'fixed' momentum: 0.9 "
        "max_iter: 1 display: 1 snapshot_after_train: false random_seed: 1";
    char command[2048], line[4096], *at;
    double loss = NAN;
    int status;
    FILE *log;

    if (models[_i].parameters > 30000000 && getenv("POSEIDON_TEST_LARGE") == NULL)
        return;
    ck_assert_int_eq(chdir(folder), 0);
    write_images("images.h5", models[_i].input);
    write_net(_i, "images.h5");
    ck_assert_int_eq(file_write("solver.prototxt", solver, strlen(solver)), 0);
    snprintf(command, sizeof command,
             "POSEIDON_MPI_TIMEOUT=500 '%s' 2 '%s' train --solver=solver.prototxt >log 2>&1",
             getenv("POSEIDON_MPIRUN"), getenv("POSEIDON"));
    status = system(command);
    ck_assert_ptr_nonnull(log = fopen("log", "r"));
    while (fgets(line, sizeof line, log) != NULL) {
        if (status != 0)
            fputs(line, stdout);
        at = strstr(line, "] Iteration 0");
        if (at != NULL && (at = strstr(at, ", loss = ")) != NULL && isnan(loss))
            loss = atof(at + 9);
    }
    fclose(log);
    ck_assert_msg(status == 0, "%s: ended with %d", models[_i].name, WEXITSTATUS(status));
    ck_assert_msg(loss > 0 && isfinite(loss), "%s: loss is %g", models[_i].name, loss);
}
END_TEST

SUITE_IN(folder, "models")
{
    TCase *shapes = suite_case(suite, "shapes"), *steps = suite_case(suite, "steps");

    suite_table(shapes, parameters_are_those_that_were_published, models);
    suite_table(shapes, stages_have_the_sizes_of_the_papers_tables, models);
    suite_table(shapes, solver_names_its_net_and_trains, models);
    suite_table(steps, one_step_is_trained_on_two_ranks, models);
}
