#!/bin/sh
# Every scheme, shared and dedicated servers, chunk sizes, clipping, micro-batches, merging, with and
# without overlap, with and without nodes, of one leader
# and of several, with helpers of dedicated servers: parameters and history equal the serial run bit for bit, bytes on the
# wire the prediction; what lossy schemes owe, too, from a run before that had as many leaders or others. A rank that fails while rank 0 collects the history ends all with its message. Some cases
# are meant for their numbers: chunks of 64 bytes, chunks larger than any group, more rows of factors than one
# multiplication takes (--iter-size=43).
set -u
. "${abs_top_srcdir:?}/tests/mpi/conformance.sh"
POSEIDON_MPI_TIMEOUT=${POSEIDON_MPI_TIMEOUT:-2400}
export POSEIDON_MPI_TIMEOUT
conformance <<TABLE
1 --comm=ps --chunk=1024
1 --comm=sfb --chunk=1024 --clip=0.1
1 --comm=allreduce --chunk=1024

2 --comm=ps --chunk=1024
2 --comm=ps --chunk=2097152 --overlap=none --clip=0.5
2 --comm=sfb --chunk=100000
2 --comm=sfb --chunk=100000 --parts=4 --iter-size=2
2 --comm=adam --chunk=1024 --parts=3 --clip=0.1
2 --comm=paper --servers=1 --chunk=512 --clip=0.3 --iter-size=2
2 --comm=allreduce --chunk=1024 --clip=0.2 --window=2000
2 --comm=adam --chunk=1024
2 --comm=onebit --chunk=1024
2 --comm=onebit --chunk=1024 --owed=3
2 --comm=lowrank --chunk=1024
2 --comm=lowrank --chunk=1024 --owed=5
2 --ways=ps/bf16,sfb,ps,lowrank:2,ps --chunk=1024
2 --ways=lowrank:2,onebit,ps,sfb/bf16,allreduce/bf16 --chunk=300 --clip=0.1 --warmup=3
2 --comm=lowrank:1 --chunk=300 --clip=0.1 --bias=frozen --warmup=3
2 --comm=ps --chunk=2097152 --overlap=none --order=fifo --staleness=2
2 --comm=ps --chunk=1024 --merge=1048576
2 --comm=ps --chunk=1024 --tree=2
2 --comm=allreduce --chunk=1024 --tree=2 --clip=0.2
2 --comm=ps --servers=1 --chunk=2097152 --net=large --threads=2
2 --comm=ps --servers=1 --chunk=65536 --net=large --threads=3 --clip=0.2
2 --comm=ps --chunk=1024 --clip=0.1 --bias=frozen
2 --comm=allreduce --chunk=1024 --clip=0.1 --bias=frozen
2 --comm=sfb --chunk=1024 --clip=0.1 --bias=frozen --iter-size=2
2 --comm=adam --chunk=1024 --clip=0.1 --bias=frozen
2 --comm=sfb --chunk=4096 --clip=0.1 --bias=frozen --iter-size=5 --factors=1

3 --comm=ps --servers=1 --chunk=64 --clip=0.2
3 --comm=sfb --chunk=2097152 --overlap=none --clip=0.3 --iter-size=3
3 --comm=paper --servers=1 --chunk=256
3 --comm=allreduce --chunk=300 --iter-size=2 --order=fifo
3 --comm=adam --servers=1 --chunk=400 --clip=0.1 --window=3000
3 --comm=onebit --chunk=200 --clip=0.3 --window=1000
3 --comm=lowrank:2 --chunk=200 --clip=0.3 --window=1000 --iter-size=2
3 --ways=ps,sfb/bf16,ps,lowrank:1,ps/bf16 --servers=1 --chunk=400 --clip=0.2 --iter-size=2
3 --ways=ps/bf16,ps/bf16,ps,ps,ps/bf16 --chunk=200 --window=1000 --merge=1048576
3 --comm=lowrank --servers=1 --chunk=2097152 --overlap=none --order=fifo --wire=bf16
3 --comm=lowrank:3 --chunk=64 --node=2 --warmup=5
3 --comm=ps --servers=1 --chunk=400 --clip=0.2 --wire=bf16 --window=1000
3 --comm=ps --servers=1 --chunk=400 --wire=bf16 --owed=1 --iter-size=2
3 --comm=none --chunk=1024 --iter-size=2
3 --comm=ps --chunk=400 --window=1000 --staleness=1
3 --comm=ps --chunk=100000 --overlap=none --clip=0.5 --iter-size=2 --window=3000 --order=fifo --node=2
3 --comm=sfb --chunk=4096 --clip=0.3 --iter-size=2 --node=2
3 --comm=sfb --chunk=4096 --clip=0.3 --iter-size=2 --node=2 --parts=3
3 --comm=sfb --chunk=512 --iter-size=5 --parts=4 --factors=1
3 --ways=ps,sfb/bf16,ps,adam,ps/bf16 --servers=1 --chunk=400 --parts=2
3 --comm=allreduce --servers=1 --chunk=4096 --wire=bf16 --node=2
3 --comm=ps --servers=1 --chunk=400 --clip=0.2 --iter-size=2 --wire=bf16 --window=1000 --merge=1048576
3 --comm=sfb --chunk=700 --clip=0.1 --window=500 --merge=2000
3 --comm=sfb --chunk=4096 --iter-size=43
2 --comm=sfb --chunk=100000 --factors=100
3 --comm=sfb --chunk=16384 --factors=2000
4 --comm=sfb --chunk=4096 --iter-size=5 --clip=0.2 --factors=1
4 --comm=sfb --chunk=4096 --iter-size=5 --node=2 --factors=20000
4 --comm=sfb --servers=1 --chunk=4096 --overlap=backward --factors=1
5 --comm=sfb --chunk=4096 --iter-size=3 --node=3 --clip=0.2 --factors=10000
7 --comm=sfb --chunk=4096 --overlap=none --window=500 --factors=1
3 --comm=paper --chunk=512 --clip=0.1 --iter-size=2 --merge=5000
1 --comm=sfb --chunk=1024 --wire=bf16
3 --comm=sfb --chunk=1000 --wire=bf16 --clip=0.3 --iter-size=2 --window=1000
3 --comm=adam --servers=1 --chunk=400 --wire=bf16 --iter-size=2
4 --comm=sfb --chunk=4096 --wire=bf16 --iter-size=5 --factors=1
5 --comm=sfb --chunk=4096 --wire=bf16 --iter-size=3 --node=3 --factors=10000
5 --comm=adam --chunk=4096 --wire=bf16 --clip=0.2 --node=2
7 --comm=paper --servers=2 --chunk=700 --wire=bf16 --clip=0.2
2 --comm=ps --chunk=512 --drop=1
3 --comm=ps --chunk=300 --drop=1 --clip=0.2 --iter-size=2
3 --comm=ps --servers=1 --chunk=400 --drop=1 --wire=bf16
3 --comm=ps --servers=1 --chunk=2097152 --net=large --drop=1 --threads=2 --clip=0.2
4 --comm=ps --servers=1 --net=large --chunk=2097152 --drop=1 --late=stuck
4 --comm=ps --chunk=1024 --drop=1 --merge=5000 --overlap=none
7 --comm=ps --servers=2 --net=large --chunk=65536 --drop=2 --late=stuck --wire=bf16 --clip=0.2 --threads=2
4 --comm=ps --chunk=512 --drop=2 --window=1000 --wire=bf16 --clip=0.3
5 --comm=ps --servers=2 --chunk=256 --drop=2 --overlap=backward --clip=0.2
5 --comm=ps --servers=1 --chunk=2097152 --drop=3 --iterations=20
7 --comm=ps --chunk=300 --drop=3 --order=fifo
7 --comm=ps --servers=2 --chunk=700 --drop=1 --clip=0.2 --bias=frozen
3 --comm=ps --chunk=1024 --end=failure
3 --comm=ps --chunk=400 --tree=3 --clip=0.2 --iter-size=2
3 --comm=allreduce --chunk=300 --tree=2 --overlap=none --window=500
3 --comm=paper --chunk=400 --tree=2 --merge=5000 --clip=0.1
3 --comm=ps --chunk=4096 --clip=0.2 --iter-size=2 --node=2 --leaders=2
3 --comm=allreduce --chunk=4096 --clip=0.2 --node=3 --leaders=3
3 --comm=ps --chunk=4096 --overlap=none --node=3 --leaders=2
3 --comm=ps --servers=1 --chunk=2097152 --net=large --threads=3 --iter-size=2 --merge=1048576 --wire=bf16
3 --comm=ps --servers=1 --chunk=2097152 --net=large --threads=2 --end=failure

4 --comm=ps --chunk=300 --clip=0.4 --iter-size=2
4 --comm=ps --servers=3 --chunk=64
4 --comm=sfb --servers=2 --chunk=128 --clip=0.5
4 --comm=paper --chunk=512 --clip=0.1 --iter-size=2
4 --comm=paper --servers=2 --chunk=2097152 --overlap=none
4 --comm=allreduce --servers=1 --chunk=4096 --overlap=backward
4 --comm=allreduce --chunk=64 --overlap=none --clip=0.3 --wire=bf16 --window=500
4 --comm=adam --chunk=2097152 --clip=0.2 --iter-size=2
4 --comm=adam --servers=2 --chunk=512 --overlap=backward
4 --comm=onebit --servers=1 --chunk=2097152 --iter-size=2
4 --comm=ps --chunk=1024 --wire=bf16
4 --comm=paper --chunk=1024 --overlap=backward --window=1 --order=fifo
4 --comm=ps --servers=1 --chunk=400 --iter-size=2 --staleness=3
4 --comm=ps --chunk=4096 --node=2
4 --comm=ps --chunk=4096 --clip=0.2 --wire=bf16 --node=2
4 --comm=ps --chunk=4096 --clip=0.3 --node=4
4 --comm=sfb --chunk=4096 --node=2
4 --comm=paper --chunk=4096 --overlap=backward --clip=0.2 --iter-size=2 --node=2
4 --comm=allreduce --chunk=4096 --clip=0.2 --iter-size=2 --node=2
4 --comm=adam --chunk=4096 --iter-size=2 --node=2
4 --comm=onebit --chunk=4096 --clip=0.2 --node=2
4 --comm=allreduce --chunk=4096 --wire=bf16 --node=2 --leaders=2 --owed=3
4 --comm=lowrank:3 --chunk=300 --owed=2
4 --comm=lowrank --chunk=4096 --clip=0.2 --node=2
4 --ways=ps/bf16,adam/bf16,ps,onebit,ps --chunk=512 --clip=0.3 --overlap=backward
4 --ways=lowrank:8,sfb/bf16,ps,sfb,ps/bf16 --chunk=4096 --clip=0.2 --iter-size=2 --node=2
4 --ways=allreduce/bf16,allreduce/bf16,ps,lowrank:2,allreduce --chunk=4096 --merge=1048576 --node=2 --leaders=2
4 --comm=lowrank:1 --chunk=256 --overlap=backward --iter-size=2
4 --comm=allreduce --chunk=300 --overlap=none --clip=0.3 --iter-size=2 --order=fifo --merge=1048576
4 --comm=sfb --servers=2 --chunk=128 --overlap=none --clip=0.5 --iter-size=43
4 --comm=ps --servers=1 --chunk=400 --iter-size=2 --staleness=3 --merge=1048576
4 --comm=paper --chunk=16384 --clip=0.1 --iter-size=2 --merge=1048576 --node=2
4 --comm=allreduce --servers=1 --chunk=1048576 --clip=0.2
4 --comm=ps --servers=2 --chunk=1024 --end=failure
4 --comm=ps --servers=1 --chunk=2097152 --net=large --threads=3 --staleness=3
4 --comm=adam --servers=2 --chunk=65536 --net=large --threads=3 --clip=0.2
4 --comm=ps --chunk=300 --tree=2 --merge=1048576 --overlap=backward
4 --comm=allreduce --chunk=4096 --tree=4 --iter-size=2 --order=fifo
4 --comm=onebit --chunk=512 --tree=2 --clip=0.3
4 --comm=ps --chunk=4096 --tree=2 --node=2
4 --comm=ps --chunk=4096 --node=2 --leaders=2
4 --comm=ps --chunk=512 --net=small --overlap=backward --window=1000 --node=2 --leaders=2
4 --comm=ps --chunk=4096 --clip=0.2 --wire=bf16 --node=2 --leaders=2
4 --comm=ps --servers=1 --chunk=4096 --clip=0.3 --iter-size=2 --node=3 --leaders=2
4 --comm=sfb --chunk=4096 --clip=0.2 --iter-size=2 --node=2 --leaders=2
4 --comm=paper --chunk=2048 --clip=0.2 --merge=5000 --node=2 --leaders=2
4 --comm=allreduce --chunk=4096 --merge=1048576 --node=2 --leaders=2
4 --comm=allreduce --chunk=4096 --clip=0.2 --overlap=none --wire=bf16 --node=2 --leaders=2
4 --comm=adam --chunk=4096 --clip=0.2 --iter-size=2 --node=2 --leaders=2
4 --comm=onebit --chunk=4096 --clip=0.2 --node=2 --leaders=2
4 --comm=lowrank:8 --chunk=65536 --clip=0.2 --node=2 --leaders=2 --warmup=2
4 --comm=ps --chunk=4096 --tree=2 --clip=0.2 --node=2 --leaders=2
4 --comm=ps --chunk=4096 --end=failure --node=2 --leaders=2

5 --comm=sfb --servers=1 --chunk=4096 --clip=0.2 --node=2
5 --comm=adam --servers=1 --chunk=4096 --clip=0.2 --node=2
5 --comm=ps --chunk=64 --tree=5 --clip=0.2 --window=1000
5 --comm=allreduce --chunk=300 --tree=2 --merge=1048576 --clip=0.3
5 --comm=adam --chunk=1024 --tree=2
5 --comm=allreduce --chunk=2048 --clip=0.2 --order=fifo --node=3 --leaders=3
5 --comm=sfb --servers=1 --chunk=4096 --clip=0.2 --node=2 --leaders=2

6 --comm=ps --servers=2 --chunk=4096 --overlap=backward --iter-size=2 --node=2
6 --comm=ps --servers=2 --chunk=4096 --clip=0.2 --node=2 --leaders=2
6 --comm=allreduce --servers=1 --chunk=1024 --node=3 --leaders=2

7 --comm=paper --servers=2 --chunk=700 --clip=0.2 --window=2000
7 --comm=allreduce --chunk=300 --wire=bf16 --window=1000
7 --comm=sfb --chunk=1024 --overlap=backward
7 --comm=ps --chunk=4096 --clip=0.2 --node=3
7 --comm=sfb --chunk=4096 --overlap=none --clip=0.2 --iter-size=2 --window=2000 --node=3
7 --comm=allreduce --chunk=4096 --node=3
7 --comm=adam --chunk=4096 --clip=0.2 --node=3
7 --comm=allreduce --servers=1 --chunk=2097152 --overlap=backward --wire=bf16 --merge=1048576
7 --comm=sfb --chunk=4096 --iter-size=22 --window=500 --node=3
7 --comm=allreduce --chunk=8192 --overlap=none --merge=1048576 --node=3
7 --comm=sfb --servers=3 --chunk=1048576 --clip=0.2
7 --comm=ps --chunk=300 --tree=7 --iter-size=2 --merge=2000
7 --comm=ps --chunk=100000 --tree=2 --overlap=none --clip=0.5
7 --comm=allreduce --chunk=300 --tree=2 --clip=0.2 --iter-size=2
7 --comm=paper --chunk=4096 --tree=2 --clip=0.2 --node=2
7 --comm=paper --chunk=4096 --clip=0.2 --iter-size=2 --node=3 --leaders=2
7 --comm=ps --chunk=1024 --tree=2 --node=3 --leaders=3
7 --comm=adam --chunk=4096 --clip=0.2 --node=3 --leaders=3
7 --comm=onebit --chunk=4096 --window=2000 --node=3 --leaders=3
7 --ways=lowrank:1,sfb/bf16,ps,onebit,ps/bf16 --chunk=300 --window=2000 --clip=0.2
7 --ways=ps/bf16,allreduce,ps,lowrank:2,ps --servers=2 --chunk=700 --order=fifo
7 --ways=ps,lowrank:4,ps,sfb/bf16,allreduce/bf16 --chunk=4096 --node=3 --warmup=2
7 --comm=lowrank --chunk=100 --window=2000 --clip=0.2
7 --comm=lowrank:2 --chunk=4096 --node=3 --leaders=3 --warmup=1
TABLE
failed=$?

# Ranks with other plans: all fail, and one says who has which.
conformance=$abs_top_builddir/tests/mpi/sync_conformance log=$(mktemp)
"$POSEIDON_MPIRUN" 1 "$conformance" --chunk=1024 : -n 1 "$conformance" --chunk=512 : -n 1 "$conformance" --chunk=1024 \
    >"$log" 2>&1 </dev/null
grep -q 'the plan of messages differs: [0-9a-f]* on ranks 0, 2; [0-9a-f]* on rank 1; are all layers. shapes the same there?' "$log" ||
    { echo 'FAILED: the plan that differs is not named:'; head -n 5 "$log"; failed=1; }
rm -f "$log"
exit $failed
