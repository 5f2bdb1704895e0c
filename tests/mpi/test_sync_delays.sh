#!/bin/sh
# Transfers delayed, seen late and in random order, every time another way: the result does not change.
# tests/long/test_all_delays.sh does the same with more seeds.
set -u
. "${abs_top_srcdir:?}/tests/mpi/conformance.sh"
POSEIDON_MPI_TIMEOUT=${POSEIDON_MPI_TIMEOUT:-7200}
export POSEIDON_MPI_TIMEOUT
conformance --seeds="${POSEIDON_SEEDS:-3}" --limit=1200 <<TABLE
3 --comm=paper --chunk=512 --clip=0.3 --iter-size=2 --window=2000
3 --comm=adam --servers=1 --chunk=300 --clip=0.1 --window=1000
3 --comm=onebit --chunk=512 --order=fifo
3 --comm=lowrank --chunk=64 --clip=0.2 --window=1000 --warmup=2
4 --comm=lowrank:2 --chunk=16384 --iter-size=2 --node=2
4 --ways=ps/bf16,sfb/bf16,ps,lowrank:2,allreduce --chunk=300 --clip=0.2 --window=1000
5 --comm=lowrank:1 --chunk=100
3 --comm=ps --chunk=512 --window=1000 --staleness=2
3 --comm=ps --chunk=512 --drop=1 --clip=0.2 --window=1000
3 --comm=ps --chunk=300 --drop=1 --late=random --iterations=40
4 --comm=ps --servers=1 --chunk=400 --drop=1 --late=random --clip=0.2 --iterations=40
5 --comm=ps --servers=1 --chunk=64 --drop=2 --late=random --iterations=60 --seeds=3
5 --comm=ps --servers=2 --chunk=64 --drop=1 --late=random --iterations=40 --window=1000 --seeds=3
4 --comm=ps --servers=1 --net=large --chunk=2097152 --drop=2 --late=random --threads=3 --iterations=40
6 --comm=ps --servers=1 --net=large --chunk=65536 --drop=2 --late=stuck
5 --comm=ps --chunk=1024 --drop=2 --late=random --wire=bf16 --window=500 --iterations=40
3 --comm=sfb --chunk=16384 --node=2
3 --comm=sfb --chunk=700 --iter-size=2 --node=2
4 --comm=sfb --chunk=100 --clip=0.2 --window=2000
4 --comm=paper --chunk=400 --factors=5000 --iter-size=2
4 --comm=sfb --chunk=16384 --window=500 --factors=1
3 --comm=sfb --chunk=16384 --iter-size=5 --clip=0.2 --factors=20000
3 --comm=sfb --chunk=16384 --iter-size=43 --window=500
3 --comm=allreduce --chunk=4096 --clip=0.3 --node=2 --leaders=2
4 --comm=allreduce --chunk=300 --wire=bf16 --window=1000
4 --comm=paper --chunk=16384 --clip=0.3 --window=2000 --node=2
4 --comm=ps --servers=1 --chunk=16384 --window=9000 --node=2
4 --comm=ps --chunk=512 --tree=2 --clip=0.3 --window=1000
4 --comm=ps --chunk=4096 --clip=0.3 --window=2000 --node=2 --leaders=2
4 --comm=paper --chunk=4096 --iter-size=2 --node=3 --leaders=2
5 --comm=allreduce --chunk=300 --tree=2 --iter-size=2
TABLE
