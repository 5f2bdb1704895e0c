/* A perceptron of two layers on Fashion-MNIST, trained by all ranks of an MPI program: plain loops,
 * and libposeidon between them; then by every rank alone, on whole batches: how far is it apart?
 *     mpicc -O3 perceptron.c -o perceptron $(pkg-config --cflags --libs poseidon) -lm
 *     mpirun -np 2 ./perceptron FOLDER [OPTIONS]
 * FOLDER has train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz; OPTIONS: "comm=sfb", ... */
#define _POSIX_C_SOURCE 200809L /* popen */
#include <math.h>
#include <poseidon.h>
#include <stdio.h>

enum { W1, B1, W2, B2, TENSORS };
enum { SAMPLES = 6000, PIXELS = 784, HIDDEN = 64, CLASSES = 10, BATCH = 48, ITERATIONS = 250 };

struct parameters {
    float w1[HIDDEN][PIXELS], b1[HIDDEN], w2[CLASSES][HIDDEN], b2[CLASSES];
};

static unsigned char bytes[SAMPLES * PIXELS], label[SAMPLES];
static float image[SAMPLES][PIXELS];

static void check(int status)
{
    if (status && fprintf(stderr, "perceptron: %s\n", poseidon_error()))
        MPI_Abort(MPI_COMM_WORLD, 1);
}

/* `count` bytes of FOLDER/NAME.gz behind its header. */
static void read_bytes(const char *folder, const char *name, size_t header, size_t count, void *out)
{
    char command[1024];
    FILE *file;

    snprintf(command, sizeof command, "gzip -dc '%s/%s.gz'", folder, name);
    file = popen(command, "r");
    if (!file || fread(out, 1, header, file) != header || fread(out, 1, count, file) != count)
        MPI_Abort(MPI_COMM_WORLD, 2);
    pclose(file);
}

/* The gradients of a layer's weight (m x n) and bias. left: the gradient of what comes out, rows x
 * m; right: what went in, rows x n. */
static void post_layer(struct poseidon *p, int weight, int rows, int m, int n, const float *left,
                       const float *right)
{
    float *grad = poseidon_gradient(p, weight), *bias = poseidon_gradient(p, weight + 1);
    int factors = poseidon_takes_factors(p, weight);

    for (int i = 0; i < rows * m; i++)
        bias[i % m] = (i < m ? 0 : bias[i % m]) + left[i];
    for (int r = 0; r < rows && !factors; r++)
        for (int i = 0; i < m; i++)
            for (int j = 0; j < n; j++)
                grad[i * n + j] = (r ? grad[i * n + j] : 0) + left[r * m + i] * right[r * n + j];
    check(factors ? poseidon_post_factors(p, weight, rows, left, right) : poseidon_post(p, weight));
    check(poseidon_post(p, weight + 1));
}

/* Forward and backward of one sample of the mean over `rows`; returns its loss. */
static double pass(const struct parameters *w, int sample, int rows, float *hidden, float *dhidden,
                   float *dout)
{
    float sum = 0, loss;

    for (int i = 0; i < HIDDEN; i++) {
        float in = w->b1[i];
        for (int j = 0; j < PIXELS; j++)
            in += w->w1[i][j] * image[sample][j];
        hidden[i] = fmaxf(in, 0);
    }
    for (int c = 0; c < CLASSES; c++) {
        dout[c] = w->b2[c];
        for (int i = 0; i < HIDDEN; i++)
            dout[c] += w->w2[c][i] * hidden[i];
        sum += dout[c] = expf(dout[c]);
    }
    loss = logf(sum / dout[label[sample]]);
    for (int c = 0; c < CLASSES; c++)
        dout[c] = (dout[c] / sum - (c == label[sample])) / (float)rows;
    for (int i = 0; i < HIDDEN; i++) {
        dhidden[i] = 0;
        for (int c = 0; c < CLASSES && hidden[i] > 0; c++)
            dhidden[i] += dout[c] * w->w2[c][i];
    }
    return loss;
}

/* Returns the mean loss of this rank's last samples. */
static double train(MPI_Comm comm, const char *options, struct parameters *w)
{
    static float hidden[BATCH][HIDDEN], dhidden[BATCH][HIDDEN], dout[BATCH][CLASSES];
    struct poseidon_tensor tensors[TENSORS] = {
        {.name = "w1", .elems = HIDDEN * PIXELS, .outputs = HIDDEN, .inputs = PIXELS},
        {.name = "b1", .elems = HIDDEN},
        {.name = "w2", .elems = CLASSES * HIDDEN, .outputs = CLASSES, .inputs = HIDDEN},
        {.name = "b2", .elems = CLASSES}};
    float *values[TENSORS] = {w->w1[0], w->b1, w->w2[0], w->b2};
    struct poseidon *p;
    double loss = 0;
    int rank, ranks, rows, first;

    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &ranks);
    check(poseidon_create(comm, options, &p));
    rows = BATCH / ranks;
    for (int t = 0; t < TENSORS; t++) {
        tensors[t].values = values[t];
        tensors[t].rows = tensors[t].inputs ? rows : 0;
        for (size_t i = 0; i < tensors[t].elems; i++)
            values[t][i] = tensors[t].rows ? 0.1f * sinf((float)(i * i)) : 0;
        check(poseidon_add(p, &tensors[t], NULL));
    }
    check(poseidon_start(p));
    for (int iteration = 0; iteration < ITERATIONS; iteration++) {
        first = (iteration * BATCH + rank * rows) % SAMPLES;
        loss = 0;
        for (int r = 0; r < rows; r++)
            loss += pass(w, first + r, rows, hidden[r], dhidden[r], dout[r]);
        post_layer(p, W2, rows, CLASSES, HIDDEN, dout[0], hidden[0]);
        post_layer(p, W1, rows, HIDDEN, PIXELS, dhidden[0], image[first]);
        for (int t = 0; t < TENSORS; t++) {
            check(poseidon_wait(p, t));
            for (size_t i = 0; i < tensors[t].elems; i++)
                values[t][i] -= 0.1f * poseidon_gradient(p, t)[i];
        }
    }
    check(poseidon_destroy(p));
    return loss / rows;
}

int main(int argc, char **argv)
{
    static struct parameters together, alone;
    const float *a = together.w1[0], *b = alone.w1[0];
    const char *folder = argc > 1 ? argv[1] : ".", *options = argc > 2 ? argv[2] : NULL;
    double far = 0, loss;
    int level;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    read_bytes(folder, "train-images-idx3-ubyte", 16, sizeof bytes, bytes);
    read_bytes(folder, "train-labels-idx1-ubyte", 8, sizeof label, label);
    for (int i = 0; i < SAMPLES * PIXELS; i++)
        image[i / PIXELS][i % PIXELS] = (float)bytes[i] / 255;
    loss = train(MPI_COMM_WORLD, options, &together);
    printf("loss %.4f, alone %.4f; ", loss, train(MPI_COMM_SELF, NULL, &alone));
    for (size_t i = 0; i < sizeof alone / sizeof *a; i++)
        far = fmax(far, fabs((double)a[i] - (double)b[i]));
    printf("parameters are at most %.1e apart\n", far);
    MPI_Finalize();
    return far < 1e-4 ? 0 : 1;
}
