/* What crosses the network in one synchronised layer, as messages without content: every rank holds
 * a share of the layer, in chunks; gradients go to the shares' homes, and when a chunk of all ranks
 * is there, its answer goes back to all. At most a window of chunks is on its way from a rank, two
 * to one peer, as in training. For SimGrid's SMPI, which times it (referee.sh).
 *
 *     skeleton CHUNK-BYTES CHUNKS-OF-A-HOME COMPUTE-SECONDS ITERATIONS
 *
 * Rank 0 prints the seconds of an iteration, the first one left out. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WINDOW = 16, TO_ONE = 2, GRADIENT = 1, ANSWER };

static int rank, size, chunks, bytes;

struct lane {
    int gradients, answers; /* how many wait to be sent to that peer */
    int flying;
};

static struct lane *lanes;
static MPI_Request sends[WINDOW];
static int peer_of[WINDOW];
static char *buffer;

/* Hands over what the window allows, to the peers after this rank first; answers before gradients,
 * since they are of chunks that all wait for. */
static int pump(void)
{
    int open = 0;

    for (int w = 0; w < WINDOW; w++)
        open += sends[w] != MPI_REQUEST_NULL;
    for (int turn = 0; turn < TO_ONE; turn++)
        for (int i = 1; i < size && open < WINDOW; i++) {
            int peer = (rank + i) % size, w = 0;
            struct lane *lane = &lanes[peer];
            if (lane->flying > turn || lane->gradients + lane->answers == 0)
                continue;
            while (sends[w] != MPI_REQUEST_NULL)
                w++;
            MPI_Isend(buffer, bytes, MPI_CHAR, peer, lane->answers > 0 ? ANSWER : GRADIENT,
                      MPI_COMM_WORLD, &sends[w]);
            *(lane->answers > 0 ? &lane->answers : &lane->gradients) -= 1;
            lane->flying++;
            peer_of[w] = peer;
            open++;
        }
    return open;
}

/* A chunk of every rank makes one that is answered. came counts per peer. */
static void take_gradient(int *came, int *answered)
{
    int least = chunks;

    for (int p = 0; p < size; p++)
        if (p != rank && came[p] < least)
            least = came[p];
    for (; *answered < least; ++*answered)
        for (int p = 0; p < size; p++)
            lanes[p].answers += p != rank;
}

static void iterate(int *came)
{
    MPI_Request all[WINDOW + 2 * 64];
    int missing = 2 * (size - 1) * chunks, posted = 0, answered = 0;
    enum { RECEIVES = 128 };
    MPI_Request *receives = all + WINDOW;

    for (int p = 0; p < size; p++) {
        lanes[p] = (struct lane){.gradients = p == rank ? 0 : chunks};
        came[p] = 0;
    }
    for (int r = 0; r < RECEIVES; r++)
        receives[r] = MPI_REQUEST_NULL;
    while (missing > 0 || pump() > 0) {
        int index, r = 0;
        MPI_Status status;
        pump();
        for (; r < RECEIVES && posted < 2 * (size - 1) * chunks; r++)
            if (receives[r] == MPI_REQUEST_NULL) {
                MPI_Irecv(buffer, bytes, MPI_CHAR, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD,
                          &receives[r]);
                posted++;
            }
        for (int w = 0; w < WINDOW; w++)
            all[w] = sends[w];
        MPI_Waitany(WINDOW + RECEIVES, all, &index, &status);
        if (index < WINDOW) {
            sends[index] = MPI_REQUEST_NULL;
            lanes[peer_of[index]].flying--;
            continue;
        }
        missing--;
        if (status.MPI_TAG == GRADIENT) {
            came[status.MPI_SOURCE]++;
            take_gradient(came, &answered);
        }
    }
}

int main(int argc, char **argv)
{
    double start = 0;
    int iterations, *came;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc != 5)
        return 2;
    bytes = atoi(argv[1]);
    chunks = atoi(argv[2]);
    iterations = atoi(argv[4]);
    buffer = calloc(1, (size_t)bytes);
    lanes = calloc((size_t)size, sizeof *lanes);
    came = calloc((size_t)size, sizeof *came);
    for (int w = 0; w < WINDOW; w++)
        sends[w] = MPI_REQUEST_NULL;
    for (int i = 0; i <= iterations; i++) {
        if (i == 1)
            start = MPI_Wtime();
        usleep((useconds_t)(atof(argv[3]) * 1e6));
        iterate(came);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    if (rank == 0)
        printf("%.6f\n", (MPI_Wtime() - start) / iterations);
    MPI_Finalize();
    return 0;
}
