/* What programs do wrong: a status and a message, no crash, no hang. */
#include "tests/library/calls.h"

#include <math.h>
#include <stdbool.h>
#include <unistd.h>

static const float factor[OUTPUTS * INPUTS];

/* What no rank may ask before the start, or at all. */
void case_refusals(const char *options)
{
    struct poseidon_place place = {.size = 3};
    struct poseidon_tensor tensor = tensor_of(0, 1);
    struct poseidon *p;

    (void)options;
    REFUSED(poseidon_create(MPI_COMM_WORLD, NULL, NULL), "NULL");
    REFUSED(poseidon_create(MPI_COMM_NULL, NULL, &p), "MPI_COMM_NULL");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "wier=bf16", &p), "wier", "did you mean wire");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "comm=auto,wire=half", &p), "half", "fp32 or bf16");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "comm=quick", &p), "quick", "ps, ");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "lossy=ps", &p), ": lossy=ps: unknown word 'ps'");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "lossy=bf16+onebit,comm=sfb", &p),
            ": lossy=bf16+onebit lists schemes for comm=auto to choose from, but comm=sfb leaves");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "wire=bf16,lossy=lowrank:2", &p),
            ": wire=bf16 rounds all gradients, but lossy=lowrank:2 only");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "lossy=bf16+bf16", &p), "appears twice");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "merge=much", &p), "much", "512k");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "hierarchy=2.5", &p), "2.5", "ranks per node");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "stall-timeout=5", &p), "stall-timeout");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "merge", &p), "merge", "NAME=VALUE");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "type=Sgd", &p), "Sgd", "SGD");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "momentum=-1", &p), "momentum", "0 or more");
    REFUSED(poseidon_create(MPI_COMM_WORLD, "comm=ps,momentum=0.9", &p),
            ": momentum= needs result=values", "result=mean the library applies no rule");
    REQUIRE(!poseidon_destroy(NULL));
    REFUSED(poseidon_add(NULL, &tensor, NULL), "NULL");
    REFUSED(poseidon_start(NULL), "NULL");
    REFUSED(poseidon_post(NULL, 0), "NULL");
    REFUSED(poseidon_wait_all(NULL), "NULL");
    REFUSED(poseidon_skip(NULL, 0), "NULL");

    REQUIRE(!poseidon_create(MPI_COMM_WORLD, "result=values", &p));
    REFUSED(poseidon_add(p, NULL, NULL), "NULL");
    tensor.name = NULL;
    REFUSED(poseidon_add(p, &tensor, NULL), "name");
    tensor = tensor_of(0, 1);
    tensor.values = NULL;
    REFUSED(poseidon_add(p, &tensor, NULL), "thousand", "values");
    tensor = tensor_of(0, 1);
    tensor.elems = 0;
    REFUSED(poseidon_add(p, &tensor, NULL), "thousand", "0 elements");
    tensor = tensor_of(0, PRODUCT);
    tensor.inputs++;
    REFUSED(poseidon_add(p, &tensor, NULL), "product", "71 inputs", "2800");
    tensor.inputs--;
    tensor.rows = -1;
    REFUSED(poseidon_add(p, &tensor, NULL), "product", "-1 rows");
    tensor = tensor_of(0, 1);
    REFUSED(poseidon_add_at(p, &tensor, NULL, NULL), "NULL");
    REFUSED(poseidon_add_at(p, &tensor, &place, NULL), "thousand", "found .size = 3");
    place.size = sizeof place;
    place.type = 3;
    REFUSED(poseidon_add_at(p, &tensor, &place, NULL), "thousand", "memory 0 and type 3");
    place.type = POSEIDON_FLOAT16;
    place.memory = -1;
    REFUSED(poseidon_add_at(p, &tensor, &place, NULL), "thousand", "memory -1 and type 1");
    place.memory = POSEIDON_CUDA; /* no module lies beside this program */
    REFUSED(poseidon_add_at(p, &tensor, &place, NULL), "on a GPU needs libposeidon_cuda.so.1");
    place.memory = POSEIDON_HOST;
    tensor.gradient = NULL;
    REFUSED(poseidon_add_at(p, &tensor, &place, NULL), "thousand", "only float32 gradients");
    tensor = tensor_of(0, 1);
    REQUIRE(!poseidon_add(p, &tensor, NULL));
    REFUSED(poseidon_add(p, &tensor, NULL), "thousand", "added already");
    place.memory = POSEIDON_CUDA;
    tensor.name = "gpu";
    REFUSED(poseidon_add_at(p, &tensor, &place, NULL), "'gpu' is in a GPU's memory",
            "earlier tensors are in the host's");
    REFUSED(poseidon_post(p, 0), "poseidon_start");
    REFUSED(poseidon_wait(p, 0), "poseidon_start");
    REFUSED(poseidon_takes_factors(p, 0), "poseidon_start");
    REFUSED(poseidon_share(p, NULL, 4), "poseidon_share");
    REQUIRE(!poseidon_gradient(p, 7));
    REQUIRE(!poseidon_start(p));
    REFUSED(poseidon_add(p, &tensor, NULL), "already");
    REFUSED(poseidon_start(p), "already");
    REFUSED(poseidon_report(p, 0, NULL), "NULL");
    REFUSED(poseidon_report(p, 1, NULL), "no tensor 1");
    REFUSED(poseidon_post_on(p, 0, NULL), "without _on");
    REFUSED(poseidon_post_factors_on(p, 0, 1, factor, factor, NULL), "without _on");
    REFUSED(poseidon_wait_on(p, 0, NULL), "without _on");
    REQUIRE(!poseidon_post(p, 0) && !poseidon_wait(p, 0)); /* none of that did any harm */
    REQUIRE(!poseidon_destroy(p));

    REQUIRE(!poseidon_create(MPI_COMM_WORLD, "", &p));
    REFUSED(poseidon_start(p), "no tensor was added");
    REFUSED(poseidon_destroy(p), "no tensor was added");
    p = made(0, "comm=lowrank:30");
    REFUSED(poseidon_start(p), "comm=lowrank:30: no layer's gradient is large enough");
    REFUSED(poseidon_destroy(p), "use a smaller rank, or comm=ps");
}

/* Ranks that disagree: the first difference is named on all. */
void case_differ(const char *options)
{
    bool last = rank == nranks - 1;
    struct poseidon_place place = {.size = sizeof place};
    struct poseidon_tensor tensor = tensor_of(0, 0);
    struct poseidon *p;
    int shared = rank;

    (void)options;
    REQUIRE(!poseidon_create(MPI_COMM_WORLD, last ? "comm=sfb" : "comm=ps", &p));
    REFUSED(poseidon_share(p, &shared, last ? 1 : 2),
            ": poseidon_share: 1 bytes here, but 2 on rank 0");
    REQUIRE(!poseidon_share(p, &shared, sizeof shared) && shared == 0);
    REQUIRE(!poseidon_add(p, &tensor, NULL));
    REFUSED(poseidon_start(p), "options differs: \"comm=ps\" on rank", "\"comm=sfb\" on rank");
    REFUSED(poseidon_post(p, 0), "comm=sfb");
    REFUSED(poseidon_destroy(p), "comm=sfb");

    p = made(0, NULL);
    tensor = tensor_of(1, 1);
    tensor.name = "more";
    if (last)
        REQUIRE(!poseidon_add(p, &tensor, NULL));
    REFUSED(poseidon_start(p), "tensor 5 differs: not set on rank", "'more' of 1000 elements",
            "add the same tensors");
    REFUSED(poseidon_destroy(p), "more");

    p = made(0, NULL);
    tensor.name = "other";
    place.type = last ? POSEIDON_FLOAT16 : POSEIDON_BFLOAT16;
    REQUIRE(!poseidon_add_at(p, &tensor, &place, NULL));
    REFUSED(poseidon_start(p), "'other' of 1000 elements of bfloat16", "of float16");
    REFUSED(poseidon_destroy(p), "other");

    p = made(0, NULL);
    tensor.name = "more";
    tensor.elems += last;
    REQUIRE(!poseidon_add(p, &tensor, NULL));
    REFUSED(poseidon_start(p), "'more' of 1001 elements", "1000 elements");
    REFUSED(poseidon_destroy(p), "more");
}

/* One rank gives up before the start: whatever the others come to next tells them. */
void case_unstarted(const char *options)
{
    bool last = rank == nranks - 1;

    for (int next = 0; next < 4; next++) {
        struct poseidon *p = made(0, options);
        int shared = 0;

        if (last && next < 3) {
            REFUSED(poseidon_fail(p, "no data"), "no data");
            REFUSED(next ? poseidon_destroy(p) : poseidon_start(p), "no data");
        } else if (last) {
            REQUIRE(!poseidon_destroy(p));
        } else {
            REFUSED(next == 1   ? poseidon_share(p, &shared, sizeof shared)
                    : next == 2 ? poseidon_state_set(p, &shared, sizeof shared)
                                : poseidon_start(p),
                    "rank", next < 3 ? "no data" : "poseidon_destroy was called before");
        }
        if (!last || !next)
            REFUSED(poseidon_destroy(p), next < 3 ? "no data" : "poseidon_destroy was");
    }
}

/* One rank does something wrong in the second iteration; all get its message. */
static void end_by(const char *what, const char *part, int wrong(struct poseidon *p))
{
    struct poseidon *p = started(0, "comm=sfb,hierarchy=off,merge=0");
    char who[32];
    int status = 0;

    snprintf(who, sizeof who, nranks > 1 ? "rank %d (" : "", nranks - 1);
    post_all(p, 0, 0);
    REQUIRE(!poseidon_wait_all(p));
    MPI_Barrier(MPI_COMM_WORLD); /* nobody is in the first one any more */
    if (rank == nranks - 1) {
        status = wrong(p);
    } else {
        for (int i = 0; i < 3 * TENSORS && !status; i++) { /* it may be an iteration ahead */
            status = poseidon_skip(p, i % TENSORS);
            if (!status && i % TENSORS == TENSORS - 1)
                status = poseidon_wait_all(p);
        }
    }
    REQUIRE(status == -1);
    if (rank < nranks - 1 || strcmp(what, "destroyed")) {
        REFUSED(poseidon_post(p, 0), part, who);
        REFUSED(poseidon_destroy(p), part, who);
    }
}

static int post_twice(struct poseidon *p)
{
    return poseidon_skip(p, 1) ? -2 : poseidon_skip(p, 1);
}

static int wait_early(struct poseidon *p)
{
    return poseidon_skip(p, 1) || poseidon_skip(p, 0) ? -2 : poseidon_wait(p, 1);
}

/* All but one, and then the next iteration. */
static int forget_one(struct poseidon *p)
{
    for (int t = 0; t < TENSORS; t++)
        if (t != 3 && poseidon_skip(p, t))
            return -2;
    return poseidon_skip(p, 4);
}

static int wrong_rows(struct poseidon *p)
{
    return poseidon_post_factors(p, PRODUCT, ROWS - 1, factor, factor);
}

static int no_factors(struct poseidon *p)
{
    return poseidon_post_factors(p, PRODUCT, ROWS, NULL, factor);
}

static int post_whole(struct poseidon *p)
{
    return poseidon_post(p, nranks > 1 ? PRODUCT : TENSORS);
}

static int post_unknown(struct poseidon *p)
{
    return poseidon_post(p, -1);
}

static int not_waited(struct poseidon *p)
{
    for (int t = 0; t < TENSORS; t++)
        if (poseidon_skip(p, t))
            return -2;
    return poseidon_skip(p, 3);
}

static int say_so(struct poseidon *p)
{
    return poseidon_fail(p, "the disk is full");
}

static int rate_within(struct poseidon *p)
{
    return poseidon_skip(p, 1) ? -2 : poseidon_set_rate(p, 0.5f);
}

static int rate_of_nothing(struct poseidon *p)
{
    return poseidon_set_rate(p, (float)NAN);
}

static int rate_below(struct poseidon *p)
{
    return poseidon_set_rate(p, -1);
}

static int destroy_within(struct poseidon *p)
{
    return poseidon_skip(p, 1) ? -2 : poseidon_destroy(p);
}

void case_ends(const char *options)
{
    (void)options;
    end_by("twice", "'thousand' was posted or skipped twice in iteration 1, and 'one' not",
           post_twice);
    end_by("forgotten", "'large' was posted or skipped twice in iteration 1, and 'bias' not at all",
           forget_one);
    end_by("early", "'product' was neither posted nor skipped in iteration 1", wait_early);
    end_by("unknown", "no tensor -1", post_unknown);
    if (nranks > 1) {
        end_by("rows", "'product': factors of 2 rows", wrong_rows);
        end_by("no factors", "'product': factors of 3 rows", no_factors);
        end_by("whole", "'product' travels as factors", post_whole);
    }
    end_by("not waited", "'bias' was not waited for before its post in iteration 2", not_waited);
    end_by("rate within", "poseidon_set_rate: tensor 'one' was neither posted nor skipped in",
           rate_within);
    end_by("no rate", "poseidon_set_rate: expected a rate of 0 or more, found nan",
           rate_of_nothing);
    end_by("rate below", "a rate of 0 or more, found -1", rate_below);
    end_by("failed", "the disk is full", say_so);
    end_by("destroyed", "'one' was neither posted nor skipped in iteration 1", destroy_within);
}

/* The last rank forgets a tensor, and does something else for ever. */
void case_silent(const char *options)
{
    struct poseidon *p = started(0, options);

    for (int t = 0; t < TENSORS; t++)
        if (t != 3 || rank < nranks - 1)
            REQUIRE(!poseidon_skip(p, t));
    if (rank == nranks - 1)
        sleep(600);
    (void)poseidon_wait_all(p);
}

/* The last rank ends an iteration before the others, which hear of it at once. */
void case_early(const char *options)
{
    static const char advice[] = " has begun: give all ranks as many batches";
    struct poseidon *p = started(0, options);
    char ends[64];

    for (int iteration = 0; iteration < (rank < nranks - 1 ? 2 : 1); iteration++) {
        for (int t = 0; t < TENSORS; t++)
            REQUIRE(!poseidon_skip(p, t));
        if (iteration == 0)
            REQUIRE(!poseidon_wait_all(p));
    }
    snprintf(ends, sizeof ends, "rank %d", nranks - 1);
    if (rank < nranks - 1)
        REFUSED(poseidon_wait_all(p), ends, "ends in iteration 1", advice);
    REFUSED(poseidon_destroy(p), ends, "ends in iteration 1", advice);
}

void case_unwritable(const char *options)
{
    struct poseidon *p = made(0, options);

    REFUSED(poseidon_start(p), "trace=nowhere/trace", "No such file");
    REFUSED(poseidon_destroy(p), "No such file");
}

/* MPI ends before the handles do, of which one has not started and one has been destroyed. */
void case_finalized(const char *options)
{
    static const char expected[] = "MPI_Finalize was called before poseidon_destroy";
    struct poseidon *p = started(0, options), *late = made(1, options);

    REQUIRE(!poseidon_destroy(started(1, options)));
    for (int t = 0; t < TENSORS; t++)
        REQUIRE(!poseidon_skip(p, t));
    REQUIRE(!poseidon_wait_all(p));
    MPI_Finalize();
    REFUSED(poseidon_skip(p, 0), expected);
    REFUSED(poseidon_start(late), expected);
    REFUSED(poseidon_destroy(p), expected);
    REFUSED(poseidon_destroy(late), expected);
}

void case_uninitialised(const char *options)
{
    struct poseidon *p;

    REFUSED(poseidon_create(MPI_COMM_WORLD, options, &p), "MPI is not initialised");
}

/* A launcher's variables say more than the one rank that there is. */
void case_launched(const char *text)
{
    struct poseidon *p;

    REFUSED(poseidon_create(MPI_COMM_WORLD, NULL, &p), text);
    REFUSED(poseidon_create(MPI_COMM_SELF, NULL, &p), text);
}

void case_single(const char *options)
{
    struct poseidon *p;

    REFUSED(poseidon_create(MPI_COMM_WORLD, options, &p), "MPI_THREAD_MULTIPLE");
}
