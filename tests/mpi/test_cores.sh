#!/bin/sh
# Which cores a rank computes on: its own, or its share of those that it may use with others, without the last one where
# that is left for the wire; OpenMP's own settings; the warnings of a rank that has one core, or one thread by the
# environment, while others are idle; and that servers' threads change no parameter.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 1' 'snapshot_after_train: false'
command -v taskset >/dev/null || exit 77

# said TEXT LOG
said() {
    grep -qF -- "$1" "$2" || fail "expected '$1', found '$(grep -E 'Rank|bound' "$2")'"
}

# run RANKS LOG WORD...: tests/mpirun.sh gives each rank its threads, which is not what is looked at here
run() {
    ranks=$1 log=$2
    shift 2
    "$POSEIDON_MPIRUN" "$ranks" env -u OMP_NUM_THREADS "$@" "$POSEIDON" train --solver=solver.prototxt --batch=4 \
        >"$log" 2>&1 </dev/null || fail "$ranks ranks: $(tail -n 3 "$log")"
}

cores=$(env -u OMP_NUM_THREADS nproc)
all=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' /proc/$$/status)
first=$(taskset -cp $$ | sed 's/.*: //; s/[-,].*//')
run 1 all
if [ "$cores" -gt 1 ]; then
    said "Rank 0: $cores compute threads on cores $first" all
    grep 'is bound to one core' all && fail 'a rank with all cores was warned'
fi
run 2 two
[ "$cores" -gt 3 ] && said "Ranks 0-1 each: $((cores / 2)) compute threads on cores $first" two
[ "$cores" -gt 1 ] && said ', which 2 ranks share' two

# both on one core, the others nobody's
run 2 one taskset -c "$first"
said "Ranks 0-1 each: 1 compute thread on core $first, which 2 ranks share" one
if [ "$(getconf _NPROCESSORS_ONLN)" -gt 1 ]; then
    said 'Rank 0 is bound to one core for computing, communication and input, while' one
    said 'start with mpirun --bind-to none' one
fi

# more compute threads than cores: said at the start, and again where the end says what would help
if [ "$cores" -gt 1 ]; then
    "$POSEIDON_MPIRUN" 2 env OMP_NUM_THREADS="$cores" "$POSEIDON" train --solver=solver.prototxt --batch=4 --max-iter=3 \
        >crowded 2>&1 </dev/null || fail "crowded: $(tail -n 3 crowded)"
    said "$((2 * cores)) compute threads of 2 ranks take turns on $cores cores, which" crowded
    said "start with --threads=$((cores / 2))" crowded
    grep -q 'What would help most: .*and fewer compute threads: .* take turns on' crowded || fail "the advice: $(grep 'What would' crowded)"
    grep 'take turns' two && fail 'two ranks with their share of the cores were warned'
fi
# a container's OMP_NUM_THREADS=1, said once; nothing where the user asks for one thread
if [ "$cores" -gt 1 ]; then
    run 1 lonely env OMP_NUM_THREADS=1
    said "OMP_NUM_THREADS=1 in the environment, which containers and batch systems set, leaves $((cores - 1)) of rank 0's $cores cores idle: unset it or start with --threads=$cores" lonely
    "$POSEIDON_MPIRUN" 1 env OMP_NUM_THREADS=1 "$POSEIDON" train --solver=solver.prototxt --batch=4 --threads=1 >asked 2>&1 </dev/null ||
        fail "asked: $(tail -n 3 asked)"
    grep 'OMP_NUM_THREADS' asked all && fail 'who asks for one thread, or sets nothing, was warned'
fi
if [ "$cores" -gt 3 ]; then
    run 2 lonely env OMP_NUM_THREADS=1
    same 'warnings of OMP_NUM_THREADS' 1 "$(grep -c 'OMP_NUM_THREADS=1 in the environment' lonely)"
fi
run 2 turns taskset -c "$first"
said 'start with fewer ranks, at most one a core' turns

# OpenMP binds the main thread when the program is loaded: the rank has its cores all the same
if [ "$cores" -gt 1 ]; then
    for setting in OMP_PROC_BIND=true OMP_PLACES=threads GOMP_CPU_AFFINITY="$all"; do
        run 1 bound env "$setting"
        said "Rank 0: $cores compute threads on cores $all, each where OpenMP's settings bind it" bound
        grep 'is bound to one core' bound && fail "$setting: a rank with all cores was warned"
    done
fi

# cpus PID [THREAD]: where the thread of that name, else the main one, may run, by the kernel's word
cpus() {
    for task in /proc/"$1"/task/*; do
        case ${2:-main} in
        "$(cat "$task/comm")") ;;
        main) task=/proc/$1/task/$1 ;;
        *) continue ;;
        esac
        sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "$task/status"
        return
    done
}

# Two ranks that take this machine for two, each with all cores to itself: all but the last compute, the wire has that,
# and whoever reads or writes files has all.
cat >apart <<END
#!/bin/sh
LD_PRELOAD='${abs_top_builddir:?}/tests/mpi/apart.so' exec '$POSEIDON' "\$@"
END
chmod +x apart
if [ "$cores" -gt 1 ] && ./apart version >/dev/null 2>&1; then # a sanitizer wants to be loaded first
    last=${all##*[-,]}
    make_solver solver.prototxt 'max_iter: 1000000' 'snapshot: 1' 'snapshot_prefix: "placed"'
    real=$POSEIDON POSEIDON=$work/apart
    begin 2 log --solver=solver.prototxt --keep=1
    POSEIDON=$real
    await 'Snapshotting solver state'
    said "Ranks 0-1 each: 1 compute thread on core" log
    said ", communication on core $last" log
    for rank in 0 1; do
        pid=$(cat pid.$rank)
        [ "$(cpus "$pid" wire)" = "$last" ] || fail "rank $rank: the wire may run on $(cpus "$pid" wire), not on $last"
        case "-$(cpus "$pid")," in
        -,) fail "rank $rank: nothing computes" ;;
        *[-,]"$last",*) fail "rank $rank: the compute thread may run on $(cpus "$pid"), with the wire" ;;
        esac
    done
    pid=$(cat pid.0)
    [ "$(cat /proc/"$pid"/task/*/comm | grep -c feeder)" -ge 1 ] || fail 'nobody reads'
    [ "$(cpus "$pid" feeder)" = "$all" ] || fail "data is read on $(cpus "$pid" feeder), not on $all"
    [ "$(cpus "$pid" snapshot)" = "$all" ] || fail "snapshots are written on $(cpus "$pid" snapshot), not on $all"
    kill "$launcher"
    wait "$launcher"
fi

# A dedicated server, the last rank, updates by one thread or more; workers keep theirs, whose number changes bits.
make_solver solver.prototxt 'max_iter: 6' 'snapshot_after_train: false'
for threads in 1 2 3; do
    for ranks in 2 3; do
        # shellcheck disable=SC2016
        "$POSEIDON_MPIRUN" "$ranks" sh -c 'OMP_NUM_THREADS=1
            [ "$OMPI_COMM_WORLD_RANK" -lt "$1" ] || OMP_NUM_THREADS=$2
            export OMP_NUM_THREADS
            shift 2
            exec "$@"' sh $((ranks - 1)) "$threads" "$POSEIDON" train --solver=solver.prototxt --batch=4 --comm=ps \
            --servers=1 --summary="server-$ranks-$threads.json" >server 2>&1 || fail "$threads threads: $(tail -n 3 server)"
        hash=$(hash_of "server-$ranks-$threads.json")
        [ -n "$hash" ] && [ "$hash" = "$(hash_of "server-$ranks-1.json")" ] ||
            fail "$ranks ranks: a server of $threads threads gives other parameters than one of 1"
    done
done

# A host of more slots than cores: Open MPI is told that ranks which wait shall yield, unless the user says otherwise.
cores=$(getconf _NPROCESSORS_ONLN)
if mpirun --version 2>/dev/null | grep -q 'Open MPI' && ! sanitized && [ "$cores" -le 16 ]; then
    cat >told.c <<'END'
#include <stdio.h>
#include <stdlib.h>
__attribute__((destructor)) static void say(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK"), *told = getenv("OMPI_MCA_mpi_yield_when_idle");
    FILE *file = rank ? fopen("told", "a") : NULL;
    if (file) { fprintf(file, "%s\n", told ? told : "nothing"); fclose(file); }
}
END
    ${CC:-cc} -shared -fPIC -o told.so told.c || fail 'told.c'
    echo "localhost slots=$((cores + 1))" >slots
    # told RANKS [OPTION...]: what all ranks of a run have been told
    told() {
        ranks=$1
        shift
        rm -f told
        env -u OMPI_MCA_mpi_yield_when_idle OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 120 \
            mpirun --bind-to none --hostfile slots -np "$ranks" "$@" -x LD_PRELOAD="$work/told.so" \
            "$POSEIDON" train --solver=solver.prototxt --threads=1 --max-iter=1 >told.log 2>&1 || fail "told: $(tail -n 3 told.log)"
        sort -u told
    }
    same 'more ranks than cores' 1 "$(told $((cores + 1)))"
    same 'the user wants it otherwise' 0 "$(told $((cores + 1)) -x OMPI_MCA_mpi_yield_when_idle=0)"
    same 'as many ranks as cores' nothing "$(told "$cores")"
fi
finish
