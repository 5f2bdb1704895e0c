/* Step 3: a lossy scheme with error feedback, a checkpoint, and a run that continues from it.
 *
 *     mpicc -O3 step3_resume.c -o step3_resume $(pkg-config --cflags --libs poseidon) -lm
 *     mpirun -np 2 ./step3_resume FILE             trains, and writes FILE half-way
 *     mpirun -np 2 ./step3_resume FILE             continues from FILE, to the same numbers
 *     mpirun -np 2 ./step3_resume FILE comm=ps     (another FILE) exact: to nearly the same loss
 *
 * By lowrank:2 a gradient travels as two thin factors, and what they leave out, the residual, is
 * kept and added to the next gradient (error feedback): nothing is lost, but some comes later. So a
 * checkpoint needs the library's state beside the weights, or it would lose the residuals. */
#include <math.h>
#include <poseidon.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { IN = 48, OUT = 32, ITERATIONS = 200 };

static float weight[OUT][IN], gradient[OUT][IN];

static void check(int status)
{
    if (status && fprintf(stderr, "step3_resume: %s\n", poseidon_error()))
        MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check_file(int worked, const char *name)
{
    if (!worked) {
        perror(name);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
}

/* Rank 0's weights and the library's state into the file. Collective: the state is on all ranks. */
static void save(struct poseidon *p, const char *name, int rank, int next)
{
    size_t bytes = poseidon_state_size(p); /* 0 on other ranks, which write nothing */
    char *state = malloc(bytes + 1);
    FILE *file;

    check_file(state != NULL, "state");
    check(poseidon_state_get(p, state, bytes));
    if (rank == 0) {
        file = fopen(name, "wb");
        check_file(file && fwrite(&next, sizeof next, 1, file) == 1 &&
                       fwrite(weight, sizeof weight, 1, file) == 1 &&
                       fwrite(&bytes, sizeof bytes, 1, file) == 1 &&
                       fwrite(state, 1, bytes, file) == bytes && !fclose(file),
                   name);
    }
    free(state);
}

/* Returns the iteration to continue with: 0 where there is no file. */
static int load(struct poseidon *p, const char *name, int rank)
{
    FILE *file = rank == 0 ? fopen(name, "rb") : NULL;
    char *state = NULL;
    size_t bytes = 0;
    int next = 0;

    if (file) {
        check_file(fread(&next, sizeof next, 1, file) == 1 &&
                       fread(weight, sizeof weight, 1, file) == 1 &&
                       fread(&bytes, sizeof bytes, 1, file) == 1 && (state = malloc(bytes)) &&
                       fread(state, 1, bytes, file) == bytes,
                   name);
        fclose(file);
    }
    check(poseidon_share(p, &next, sizeof next)); /* the weights are shared by poseidon_start */
    if (next > 0)
        check(poseidon_state_set(p, state, bytes)); /* other ranks' state is not read */
    free(state);
    return next;
}

/* The gradient of the mean of |weight in - target|^2 / 2 over 8 samples; returns that mean. */
static float pass(int first_sample)
{
    float in[IN], error, loss = 0;

    memset(gradient, 0, sizeof gradient);
    for (int s = first_sample; s < first_sample + 8; s++) {
        for (int i = 0; i < IN; i++)
            in[i] = sinf((float)(s % 64 + 1) * (float)(i + 1));
        for (int o = 0; o < OUT; o++) {
            error = -in[o] * in[o];
            for (int i = 0; i < IN; i++)
                error += weight[o][i] * in[i];
            loss += error * error / 16;
            for (int i = 0; i < IN; i++)
                gradient[o][i] += error * in[i] / 8;
        }
    }
    return loss;
}

int main(int argc, char **argv)
{
    struct poseidon_tensor tensor = {.name = "weight",
                                     .elems = OUT * IN,
                                     .gradient = gradient[0],
                                     .values = weight[0],
                                     .outputs = OUT,
                                     .inputs = IN};
    const char *options = argc > 2 ? argv[2] : "comm=lowrank:2,lowrank-warmup=0,hierarchy=off";
    struct poseidon *p;
    int level, rank, ranks, number, begin;
    float loss = 0;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (argc < 2) {
        fprintf(stderr, "usage: step3_resume FILE [OPTIONS]\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    check(poseidon_create(MPI_COMM_WORLD, options, &p));
    check(poseidon_add(p, &tensor, &number));
    begin = load(p, argv[1], rank);
    check(poseidon_start(p));
    for (int iteration = begin; iteration < ITERATIONS; iteration++) {
        if (iteration == ITERATIONS / 2 && begin == 0)
            save(p, argv[1], rank, iteration);
        loss = pass((iteration * ranks + rank) * 8);
        if (iteration == begin && rank == 0)
            printf("iteration %d: loss %.9g\n", iteration, loss);
        check(poseidon_post(p, number));
        check(poseidon_wait(p, number));
        for (int o = 0; o < OUT; o++)
            for (int i = 0; i < IN; i++)
                weight[o][i] -= 0.02f * gradient[o][i];
    }
    if (rank == 0)
        printf("iteration %d: loss %.9g\n", ITERATIONS, loss);
    check(poseidon_destroy(p));
    MPI_Finalize();
    return 0;
}
