#!/bin/sh
# What tests/mpi/test_sync.sh shows, on more ranks than the machine has cores, and on nodes of 3, 5 and 8: groups that
# are smaller than there are ranks, chunks with fewer elements than homes, last nodes that are not full;
# and where nothing else is asked for, trees from 32 leaders on.
set -u
. "${abs_top_srcdir:?}/tests/mpi/conformance.sh"
POSEIDON_MPI_TIMEOUT=14400
export POSEIDON_MPI_TIMEOUT
conformance --limit=3600 --iterations=6 <<TABLE
11 --comm=ps --chunk=4096 --node=3 --net=small
11 --comm=sfb --chunk=4096 --node=5 --net=small --clip=0.2
13 --comm=allreduce --chunk=4096 --node=5 --net=small --iter-size=2
13 --comm=paper --chunk=2048 --node=8 --servers=1 --net=small --window=2000
11 --comm=allreduce --chunk=1024 --clip=0.2 --node=3 --leaders=3
13 --comm=paper --chunk=2048 --node=5 --leaders=3 --clip=0.2

16 --comm=ps --chunk=256
16 --comm=ps --chunk=256 --servers=5 --clip=0.2
16 --comm=sfb --chunk=1024 --clip=0.3
16 --comm=sfb --chunk=1024 --factors=1
16 --comm=paper --chunk=512 --servers=2 --iter-size=2
16 --comm=allreduce --chunk=64 --wire=bf16
16 --ways=lowrank:2,sfb/bf16,ps,onebit,ps/bf16 --chunk=64
16 --comm=adam --chunk=1024 --overlap=backward
16 --comm=onebit --chunk=512 --overlap=none
16 --comm=ps --chunk=512 --staleness=2
16 --comm=ps --chunk=512 --drop=5 --clip=0.2 --iterations=12
16 --comm=ps --chunk=256 --servers=3 --drop=2 --late=random --iterations=40
16 --comm=allreduce --chunk=4096 --merge=1048576 --order=fifo
16 --comm=ps --chunk=4096 --node=3
16 --comm=allreduce --chunk=4096 --node=5 --clip=0.2
16 --comm=paper --chunk=4096 --node=8
16 --comm=onebit --chunk=4096 --node=8 --net=small
16 --comm=lowrank --chunk=64 --warmup=2
16 --comm=lowrank:1 --chunk=4096 --node=3 --net=small --clip=0.2
16 --comm=adam --chunk=4096 --node=3 --net=small
16 --comm=ps --chunk=4096 --node=8 --wire=bf16 --net=small
16 --comm=ps --chunk=1024 --node=8 --leaders=8
16 --comm=adam --chunk=2048 --node=3 --leaders=2 --clip=0.2

32 --comm=ps --chunk=128
31 --comm=ps --chunk=64 --drop=3 --wire=bf16
32 --comm=paper --chunk=512 --servers=4 --clip=0.2
32 --comm=sfb --chunk=1024
32 --comm=allreduce --chunk=256
32 --comm=onebit --chunk=512
32 --comm=lowrank:2 --chunk=64
32 --comm=ps --chunk=1024 --node=5 --net=small
32 --comm=allreduce --chunk=1024 --node=8 --net=small --clip=0.2
32 --comm=paper --chunk=1024 --node=3 --net=small
32 --comm=allreduce --chunk=1024 --node=5 --leaders=3 --clip=0.2
32 --comm=ps --chunk=512 --node=8 --leaders=5 --servers=2 --net=small

33 --comm=ps --chunk=512
33 --comm=ps --chunk=512 --tree=2 --clip=0.2
33 --comm=allreduce --chunk=1024 --tree=2 --merge=1048576 --iter-size=2

64 --comm=ps --chunk=128
64 --comm=paper --chunk=512 --servers=8
64 --comm=sfb --chunk=1024
64 --comm=allreduce --chunk=256 --clip=0.2
64 --comm=ps --chunk=1024 --node=8 --net=small
64 --comm=allreduce --chunk=1024 --node=5 --net=small
64 --comm=ps --chunk=512 --tree=2 --clip=0.2
64 --comm=allreduce --chunk=4096 --tree=64
64 --comm=ps --chunk=4096 --tree=2 --node=5 --net=small
64 --comm=ps --chunk=1024 --tree=2 --node=5 --leaders=3 --clip=0.2
64 --comm=paper --chunk=1024 --node=3 --leaders=3 --net=small
TABLE
