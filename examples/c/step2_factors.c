/* Step 2: wait-free backpropagation with sufficient factors. A perceptron of two layers is trained
 * by all ranks, and then by every rank alone on the whole batches, for comparison.
 *
 *     mpicc -O3 step2_factors.c -o step2_factors $(pkg-config --cflags --libs poseidon) -lm
 *     mpirun -np 2 ./step2_factors [comm=sfb]
 *
 * A layer's gradient is posted as soon as it exists, and waited for when the next forward pass
 * reaches the layer: the upper layer's traffic is hidden behind the lower layer's backward pass.
 * The gradient of a weight is dout^T in, of the layer's input and of its output's gradient. Where
 * these two factors are smaller than their product, the library may send them instead. */
#include <math.h>
#include <poseidon.h>
#include <stdio.h>
#include <string.h>

enum { IN = 256, HIDDEN = 64, OUT = 16, BATCH = 24, ITERATIONS = 200 };

struct layer {
    int inputs, outputs, tensor;
    float weight[HIDDEN * IN]; /* outputs x inputs */
};

static void check(int status)
{
    if (status && fprintf(stderr, "step2_factors: %s\n", poseidon_error()))
        MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The teacher's function, which the net is to learn, of a sample that only its number decides. */
static void make_sample(int number, float in[IN], float target[OUT])
{
    for (int i = 0; i < IN; i++)
        in[i] = sinf((float)(number % 64 + 1) * (float)(i + 1));
    for (int o = 0; o < OUT; o++)
        target[o] = 0.5f * (in[o] > 0) + 0.25f * in[o + OUT];
}

/* New weights, once the mean gradient has arrived. */
static void update(struct poseidon *p, struct layer *layer)
{
    const float *gradient = poseidon_gradient(p, layer->tensor);

    check(poseidon_wait(p, layer->tensor));
    for (int i = 0; i < layer->outputs * layer->inputs; i++)
        layer->weight[i] -= 0.02f * gradient[i];
}

static void forward(const struct layer *layer, const float *in, float *out)
{
    for (int o = 0; o < layer->outputs; o++) {
        out[o] = 0;
        for (int i = 0; i < layer->inputs; i++)
            out[o] += layer->weight[o * layer->inputs + i] * in[i];
    }
}

/* The gradient of the weight over `rows` samples, as two factors or as their product. */
static void post(struct poseidon *p, const struct layer *layer, int rows, const float *dout,
                 const float *in)
{
    int inputs = layer->inputs, outputs = layer->outputs;
    float *gradient = poseidon_gradient(p, layer->tensor);

    if (poseidon_takes_factors(p, layer->tensor)) {
        check(poseidon_post_factors(p, layer->tensor, rows, dout, in));
        return;
    }
    memset(gradient, 0, (size_t)(outputs * inputs) * sizeof *gradient);
    for (int r = 0; r < rows; r++)
        for (int o = 0; o < outputs; o++)
            for (int i = 0; i < inputs; i++)
                gradient[o * inputs + i] += dout[r * outputs + o] * in[r * inputs + i];
    check(poseidon_post(p, layer->tensor));
}

static void add(struct poseidon *p, const char *name, int rows, struct layer *layer)
{
    int elems = layer->outputs * layer->inputs;
    struct poseidon_tensor tensor = {.name = name,
                                     .elems = (size_t)elems,
                                     .values = layer->weight,
                                     .rows = rows,
                                     .outputs = layer->outputs,
                                     .inputs = layer->inputs};

    for (int i = 0; i < elems; i++)
        layer->weight[i] = 0.1f * sinf((float)(i * i % 9973));
    check(poseidon_add(p, &tensor, &layer->tensor));
}

/* Trains the net, and returns the mean loss of this rank's samples: *first and at the end. */
static float train(MPI_Comm comm, const char *options, struct layer *lower, struct layer *upper,
                   float *first)
{
    static float in[BATCH][IN], target[BATCH][OUT];
    static float hidden[BATCH][HIDDEN], dhidden[BATCH][HIDDEN], out[BATCH][OUT];
    struct poseidon *p;
    int rank, ranks, rows;
    float loss = 0;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    rows = BATCH / ranks; /* a number of ranks that divides BATCH */
    *lower = (struct layer){.inputs = IN, .outputs = HIDDEN};
    *upper = (struct layer){.inputs = HIDDEN, .outputs = OUT};
    check(poseidon_create(comm, options, &p));
    add(p, "lower", rows, lower); /* in the order of the forward pass */
    add(p, "upper", rows, upper);
    check(poseidon_start(p));
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        for (int r = 0; r < rows; r++)
            make_sample(iteration * BATCH + rank * rows + r, in[r], target[r]);
        if (iteration > 0)
            update(p, lower);
        for (int r = 0; r < rows; r++) {
            forward(lower, in[r], hidden[r]);
            for (int h = 0; h < HIDDEN; h++)
                hidden[r][h] = fmaxf(hidden[r][h], 0);
        }
        if (iteration > 0)
            update(p, upper); /* the upper gradient travels until here */
        loss = 0;
        for (int r = 0; r < rows; r++) {
            forward(upper, hidden[r], out[r]);
            for (int o = 0; o < OUT; o++) {
                float error = out[r][o] - target[r][o];
                loss += error * error / 2 / (float)rows;
                out[r][o] = error / (float)rows; /* from here on the loss's gradient */
            }
        }
        if (iteration == 0)
            *first = loss;
        post(p, upper, rows, out[0], hidden[0]); /* travels while the lower layer computes */
        for (int r = 0; r < rows; r++)
            for (int h = 0; h < HIDDEN; h++) {
                dhidden[r][h] = 0;
                for (int o = 0; o < OUT && hidden[r][h] > 0; o++)
                    dhidden[r][h] += out[r][o] * upper->weight[o * HIDDEN + h];
            }
        post(p, lower, rows, dhidden[0], in[0]);
    }
    update(p, lower);
    update(p, upper);
    check(poseidon_destroy(p));
    return loss;
}

int main(int argc, char **argv)
{
    static struct layer lower, upper, lower_alone, upper_alone;
    float first, loss, apart = 0;
    int level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    loss = train(MPI_COMM_WORLD, argc > 1 ? argv[1] : NULL, &lower, &upper, &first);
    printf("loss %.3f at first, %.3f at the end; ", first, loss);
    train(MPI_COMM_SELF, NULL, &lower_alone, &upper_alone, &first);
    for (int i = 0; i < HIDDEN * IN; i++)
        apart = fmaxf(apart, fabsf(lower.weight[i] - lower_alone.weight[i]));
    for (int i = 0; i < OUT * HIDDEN; i++)
        apart = fmaxf(apart, fabsf(upper.weight[i] - upper_alone.weight[i]));
    printf("weights are at most %.1e from those of one rank alone\n", apart);
    MPI_Finalize();
    return apart < 1e-4f ? 0 : 1;
}
