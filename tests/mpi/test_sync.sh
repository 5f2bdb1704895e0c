#!/bin/sh
# Every scheme, shared and dedicated servers, chunk sizes, clipping, micro-batches, merging, with and
# without overlap, with and without nodes: parameters and history equal the serial run bit for bit, bytes on the
# wire the prediction.
set -u
program=$abs_top_builddir/tests/mpi/sync_conformance
failures=0
# ranks comm servers chunk overlap clip iter_size wire window order seeds staleness merge node fails
while read -r ranks arguments; do
    # shellcheck disable=SC2086
    if POSEIDON_MPI_TIMEOUT=60 "$POSEIDON_MPIRUN" "$ranks" "$program" $arguments; then
        echo "ok: $ranks ranks, $arguments"
    else
        echo "FAILED: $ranks ranks, $arguments"
        failures=$((failures + 1))
    fi
done <<LIST
1 ps    0 1024    1 0   1
1 sfb   0 1024    1 0.1 1
2 ps    0 1024    1 0   1
2 ps    0 2097152 0 0.5 1
2 sfb   0 100000  1 0   1
2 paper 1 512     1 0.3 2
3 ps    1 64      1 0.2 1
3 sfb   0 2097152 0 0.3 3
3 paper 1 256     1 0   1
4 ps    0 300     1 0.4 2
4 ps    3 64      1 0   1
4 sfb   2 128     1 0.5 1
4 paper 0 512     1 0.1 2
4 paper 2 2097152 0 0   1
1 allreduce 0 1024 1 0   1
2 allreduce 0 1024 1 0.2 1 fp32 2000
3 allreduce 0 300  1 0   2 fp32 0 fifo
4 allreduce 1 4096 2 0   1
4 allreduce 0 64   0 0.3 1 bf16 500
2 adam      0 1024 1 0   1
3 adam      1 400  1 0.1 1 fp32 3000
4 adam      0 2097152 1 0.2 2
4 adam      2 512  2 0   1
2 onebit    0 1024 1 0   1
3 onebit    0 200  1 0.3 1 fp32 1000
4 onebit    1 2097152 1 0 2
3 ps        1 400  1 0.2 1 bf16 1000
4 ps        0 1024 1 0   1 bf16
3 none      0 1024 1 0   2
4 paper     0 1024 2 0   1 fp32 1 fifo
3 ps        0 400  1 0   1 fp32 1000 urgency 0 1
4 ps        1 400  1 0   2 fp32 0 urgency 0 3
2 ps        0 2097152 0 0 1 fp32 0 fifo 0 2
7 paper     2 700  1 0.2 1 fp32 2000
7 allreduce 0 300  1 0   1 bf16 1000
7 sfb       0 1024 2 0   1
4 ps        0 4096   1 0   1 fp32 0    urgency 0 0 0 2
3 ps        0 100000 0 0.5 2 fp32 3000 fifo    0 0 0 2
7 ps        0 4096   1 0.2 1 fp32 0    urgency 0 0 0 3
6 ps        2 4096   2 0   2 fp32 0    urgency 0 0 0 2
4 ps        0 4096   1 0.2 1 bf16 0    urgency 0 0 0 2
4 ps        0 4096   1 0.3 1 fp32 0    urgency 0 0 0 4
4 sfb       0 4096   1 0   1 fp32 0    urgency 0 0 0 2
3 sfb       0 4096   1 0.3 2 fp32 0    urgency 0 0 0 2
7 sfb       0 4096   0 0.2 2 fp32 2000 urgency 0 0 0 3
5 sfb       1 4096   1 0.2 1 fp32 0    urgency 0 0 0 2
4 paper     0 4096   2 0.2 2 fp32 0    urgency 0 0 0 2
4 allreduce 0 4096   1 0.2 2 fp32 0    urgency 0 0 0 2
7 allreduce 0 4096   1 0   1 fp32 0    urgency 0 0 0 3
3 allreduce 1 4096   1 0   1 bf16 0    urgency 0 0 0 2
4 adam      0 4096   1 0   2 fp32 0    urgency 0 0 0 2
7 adam      0 4096   1 0.2 1 fp32 0    urgency 0 0 0 3
5 adam      1 4096   1 0.2 1 fp32 0    urgency 0 0 0 2
4 onebit    0 4096   1 0.2 1 fp32 0    urgency 0 0 0 2
2 ps        0 1024 1 0   1 fp32 0 urgency 0 0 1048576
3 ps        1 400  1 0.2 2 bf16 1000 urgency 0 0 1048576
4 allreduce 0 300  0 0.3 2 fp32 0 fifo 0 0 1048576
7 allreduce 1 2097152 2 0 1 bf16 0 urgency 0 0 1048576
3 sfb       0 700  1 0.1 1 fp32 500 urgency 0 0 2000
3 sfb       0 4096 1 0   43
4 sfb       2 128  0 0.5 43
7 sfb       0 4096 1 0   22 fp32 500 urgency 0 0 0 3
4 ps        1 400  1 0   2 fp32 0 urgency 0 3 1048576
3 paper     0 512  1 0.1 2 fp32 0 urgency 0 0 5000
4 paper     0 16384  1 0.1 2 fp32 0 urgency 0 0 1048576 2
7 allreduce 0 8192   0 0   1 fp32 0 urgency 0 0 1048576 3
4 allreduce 1 1048576 1 0.2 1 fp32 0
7 sfb       3 1048576 1 0.2 1 fp32 0
3 ps        0 1024 1 0 1 fp32 0 urgency 0 0 0 0 fails
4 ps        2 1024 1 0 1 fp32 0 urgency 0 0 0 0 fails
LIST
exit $((failures > 0))
