/* Kernels with the faults that whole blocks are emulated for, for tests/cuda/test_blocks.c, and one
 * without; the last part of emulation.cpp. Their names begin with "fault": no kernel of cuda/ does.
 */

KERNEL void fault_none(int *out)
{
    SHARED int part[THREADS];

    part[threadIdx.x] = (int)threadIdx.x + 1;
    BARRIER();
    out[threadIdx.x] = part[(threadIdx.x + 1) % blockDim.x];
    BARRIER();
    part[threadIdx.x] = 0;
}

KERNEL void fault_no_barrier(int *out)
{
    SHARED int part[THREADS];

    part[threadIdx.x] = (int)threadIdx.x + 1;
    out[threadIdx.x] = part[(threadIdx.x + 1) % blockDim.x];
    BARRIER();
    part[threadIdx.x] = 0;
}

KERNEL void fault_some_come(int *out)
{
    if (threadIdx.x < blockDim.x / 2)
        BARRIER();
    out[threadIdx.x] = 0;
}

KERNEL void fault_another_barrier(int *out)
{
    if (threadIdx.x % 2)
        BARRIER();
    else
        BARRIER();
    out[threadIdx.x] = 0;
}

KERNEL void fault_some_vote(int *out)
{
    if (threadIdx.x % 32)
        out[threadIdx.x] = (int)VOTE(true);
}

KERNEL void fault_vote(int *out)
{
    out[threadIdx.x] = (int)VOTE(threadIdx.x % 3 == 0);
}

extern "C" void emulated_fault(const char *name, int out[THREADS])
{
    void (*const kernels[])(int *) = {fault_none,      fault_no_barrier,      fault_some_come,
                                      fault_some_vote, fault_another_barrier, fault_vote};
    const char *const names[] = {"none",      "no_barrier",      "some_come",
                                 "some_vote", "another_barrier", "vote"};
    cudaStream_t stream;

    cudaStreamCreateWithPriority(&stream, 0, 0);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            LAUNCH(kernels[i], 1, THREADS, stream, out);
    cudaStreamSynchronize(stream);
    cudaStreamDestroy(stream);
}
