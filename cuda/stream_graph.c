/* Recording: the compute stream is captured into a CUDA graph.
 *
 * A captured kernel keeps its arguments. So recorded kernels read from device memory what changes
 * from pass to pass without changing the launches (seed and first sample, for dropout's masks).
 * Capture concerns the calling thread alone: copies of the wire thread go on meanwhile. */
#include "cuda_internal.h"

#include "util/error.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct engine_graph {
    cudaGraphExec_t exec;
    unsigned generation; /* engine's generation when the graph was recorded */
};

static bool available(void *context)
{
    return !((const struct cuda_engine *)context)->no_graphs;
}

static int prepare(void *context, const struct pass *pass)
{
    struct cuda_engine *engine = context;
    const struct kernel_pass now = {pass->seed, pass->first_sample};
    void *memory = NULL;

    if (cuda_check(cudaSetDevice(engine->device)))
        return -1;
    if (!engine->pass) {
        if (cuda_alloc(sizeof *engine->pass, "a recorded pass's seed and sample", &memory))
            return -1;
        engine->pass = memory;
    } else if (!memcmp(&now, &engine->prepared, sizeof now)) {
        return 0;
    }
    engine->prepared = now;
    return cuda_write_small(engine, engine->pass, &now, sizeof now);
}

static int graph_begin(void *context)
{
    struct cuda_engine *engine = context;

    assert(!engine->recording);
    if (cuda_check(cudaStreamBeginCapture(engine->stream, cudaStreamCaptureModeThreadLocal)))
        return -1;
    engine->recording = true;
    return 0;
}

static int graph_end(void *context, struct engine_graph **out)
{
    struct cuda_engine *engine = context;
    struct engine_graph *made;
    cudaGraph_t graph = NULL;
    int status;

    *out = NULL;
    assert(engine->recording);
    engine->recording = false;
    if (cuda_check(cudaStreamEndCapture(engine->stream, &graph)))
        return -1;
    made = calloc(1, sizeof *made);
    if (!made) {
        cudaGraphDestroy(graph);
        return error_memory(sizeof *made, "a recorded pass");
    }
    made->generation = engine->generation;
    status = cuda_check(cudaGraphInstantiate(&made->exec, graph, 0));
    cudaGraphDestroy(graph);
    if (status)
        free(made);
    else
        *out = made;
    return status;
}

static int launch(void *context, struct engine_graph *graph)
{
    struct cuda_engine *engine = context;

    assert(!engine->recording);
    if (graph->generation != engine->generation)
        return 1;
    return cuda_check(cudaGraphLaunch(graph->exec, engine->stream));
}

/* Destroys a graph; CUDA frees a running graph when it ends. */
static void destroy(void *context, struct engine_graph *graph)
{
    (void)context;
    if (!graph)
        return;
    cudaGraphExecDestroy(graph->exec);
    free(graph);
}

const struct engine_graph_i cuda_graph = {
    .available = available,
    .prepare = prepare,
    .begin = graph_begin,
    .end = graph_end,
    .launch = launch,
    .destroy = destroy,
};
