/* bench_input --model=FILE [--passes=N]
 *
 * How fast a net's data comes: passes over a net of data layers alone (bench_input.sh writes some),
 * with the transforms of training, on as many feeder threads as the cores of this process allow.
 * Prints images a second on the wall and of the whole process's processor time. */
#include "net/net.h"
#include "spec/read.h"
#include "util/clock.h"
#include "util/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What is ready ahead when the clock starts must not count for much. */
enum { AHEAD = 4 };

static double processor_seconds(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int measure(struct net *net, int passes)
{
    const struct pass pass = {.seed = 1};
    double wall = 0, processor = 0;

    for (int pass = -AHEAD; pass < passes; pass++) {
        if (pass == 0) {
            wall = clock_seconds();
            processor = processor_seconds();
        }
        if (net_forward(net, &pass, NULL, NULL))
            return -1;
    }
    double images = (double)passes * net_batch(net);
    printf("%.0f images/s, %.0f images a second of processor time\n",
           images / (clock_seconds() - wall), images / (processor_seconds() - processor));
    return 0;
}

int main(int argc, char **argv)
{
    const struct engine_options options = {.threads = 1};
    struct layer_env env = {.nranks = 1, .seed = 1};
    struct engine engine = {0};
    struct text_doc *doc = NULL;
    struct net_def *def = NULL;
    struct net *net = NULL;
    int passes = 100, status;

    for (int i = 1; i < argc; i++)
        if (strncmp(argv[i], "--model=", 8) == 0)
            env.base_file = argv[i] + 8;
        else if (strncmp(argv[i], "--passes=", 9) == 0)
            passes = atoi(argv[i] + 9);
    if (!env.base_file) {
        fprintf(stderr, "usage: bench_input --model=FILE [--passes=N]\n");
        return 2;
    }
    status = engine_open("cpu", &options, &engine) ||
             text_read_file(env.base_file, &caffe__net_parameter__descriptor, &doc) ||
             net_def_create(doc, (Caffe__NetParameter *)text_root(doc), CAFFE__PHASE__TRAIN, NULL,
                            &def) ||
             net_create(def, true, &env, NULL, &net) || net_build(net, &engine, 1) ||
             measure(net, passes);
    if (status)
        fprintf(stderr, "bench_input: %s\n", error_text());
    net_destroy(net);
    net_def_destroy(def);
    text_free(doc);
    engine_close(&engine);
    return status ? 1 : 0;
}
