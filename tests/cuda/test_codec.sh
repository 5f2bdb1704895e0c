#!/bin/sh
# Gradients that are encoded in the emulated GPU's memory: the loss is about the CPU engine's, the parameters are the
# same to the last bit however they are cut and sent and whether its streams are worked off as late as can be or at
# once, and no more bytes go to the host than on the wire. What the bits are is test_encode's.
set -u
. "${abs_top_srcdir:?}/tests/cuda/common.sh"
POSEIDON_EMULATED_AT_ONCE=0
POSEIDON_EMULATED_AWARE=0
POSEIDON_EMULATED_TELL=1
export POSEIDON_EMULATED_AT_ONCE POSEIDON_EMULATED_AWARE POSEIDON_EMULATED_TELL

reference() { # RANKS ARGUMENTS...: all is done at once
    configuration=$*
    POSEIDON_EMULATED_AT_ONCE=1
    run "$@" --tune=ps-update=host || return
    POSEIDON_EMULATED_AT_ONCE=0
    expected=$(value parameters_sha256)
    loss=$(value train_loss)
    ranks=$1; shift
    "$POSEIDON_MPIRUN" "$ranks" "$POSEIDON" train --threads=1 --set random_seed=3 --force --summary=out.json "$@" >cpu 2>&1 ||
        { cat cpu; fail "the CPU engine: $configuration"; return; }
    awk -v a="$(value train_loss)" -v b="$loss" 'BEGIN { exit !(a > 0 && b > 0 && (a - b)^2 < (1e-3 * a)^2) }' ||
        fail "$configuration: loss $loss, and $(value train_loss) on the CPU"
    echo "$configuration: $expected, loss $loss"
}

same() { # ARGUMENTS...: added to the reference's
    # shellcheck disable=SC2086
    run $configuration "$@" || return
    [ "$(value parameters_sha256)" = "$expected" ] || fail "$configuration $*: other parameters"
}

straight() { # ARGUMENTS...
    POSEIDON_EMULATED_AWARE=1
    same --tune=direct=on "$@"
    grep -q "Messages go straight from and to the engine's memory" log || fail "not straight: $configuration $*"
    POSEIDON_EMULATED_AWARE=0
}

reference 2 --solver=plain.prototxt --comm=onebit
same --tune=ps-update=host
same --tune=ps-update=device --tune=chunk=1k
reference 3 --solver=clipped.prototxt --comm=onebit
same --tune=ps-update=host --tune=chunk=1k
straight --tune=ps-update=host --tune=chunk=1k
reference 3 --solver=plain.prototxt --comm=ps --tune=wire=bf16
same --tune=ps-update=host
same --tune=ps-update=device --tune=chunk=1k
straight --tune=ps-update=host --tune=chunk=1k
straight --tune=ps-update=device
reference 2 --solver=clipped.prototxt --comm=allreduce --tune=wire=bf16
same
same --tune=chunk=1020 --tune=overlap=none --tune=no-graphs # odd numbers of values
straight --tune=chunk=1020
reference 3 --solver=plain.prototxt --comm=auto --tune=wire=bf16
same --tune=ps-update=host
reference 3 --solver=plain.prototxt --comm=ps --tune=wire=bf16 --servers=1
same
reference 2 --solver=plain.prototxt --comm=onebit --servers=1 # nobody to add up with: encoded all the same
same

# A run that goes on from a snapshot has in the GPU's memory what it had yet to send.
went_on() { # RANKS ARGUMENTS...
    whole=$*
    run "$@" --set snapshot=3 --snapshot-prefix="$work/half" || return
    expected=$(value parameters_sha256)
    run "$@" --snapshot="$work/half_iter_3.solverstate" || return
    [ "$(value parameters_sha256)" = "$expected" ] || fail "$whole: resumed after 3 iterations, other parameters"
}
went_on 2 --solver=plain.prototxt --comm=onebit
went_on 3 --solver=plain.prototxt --comm=ps --tune=wire=bf16 --tune=ps-update=device
went_on 3 --solver=clipped.prototxt --comm=allreduce --tune=wire=bf16
went_on 2 --solver=plain.prototxt --comm=lowrank --tune=lowrank-warmup=1
POSEIDON_EMULATED_AWARE=1
went_on 2 --solver=plain.prototxt --comm=allreduce --tune=wire=bf16 --tune=direct=on
POSEIDON_EMULATED_AWARE=0

# Between two ranks a gradient and a sum cross the wire for every two gradients that are fetched; where they go
# straight, only a rank's own are.
beside() { # FETCHES ARGUMENTS...: bytes that were fetched beside the messages, each so many times in six iterations
    fetches=$1; shift
    run 2 --solver=plain.prototxt --tune=ps-update=host "$@" >&2 || return
    fetched=$(sed -n 's/.*fetched from the emulated GPU: \([0-9]*\) bytes.*/\1/p' log | paste -s -d +)
    sent=$(value bytes_sent_per_iteration_by_rank | tr -d '[]' | tr , +)
    # shellcheck disable=SC2004
    echo $(($fetched - $fetches * ($sent)))
}

no_more() { # FETCHES PLAIN ENCODED: arguments
    # shellcheck disable=SC2086
    expected=$(beside "$1" $2) found=$(beside "$1" $3)
    [ "$found" = "${expected:-none}" ] ||
        fail "$3: $found bytes fetched beside the messages; $2: $expected"
}
no_more 6 --comm=allreduce '--comm=allreduce --tune=wire=bf16'
no_more 6 --comm=allreduce --comm=onebit
no_more 6 --comm=allreduce '--comm=onebit --tune=chunk=1k'
POSEIDON_EMULATED_AWARE=1
no_more 3 '--comm=allreduce --tune=direct=on' '--comm=allreduce --tune=wire=bf16 --tune=direct=on'

# too little memory for what encoding takes, whatever else there is room for
POSEIDON_EMULATED_AWARE=0
export POSEIDON_EMULATED_BYTES
for POSEIDON_EMULATED_BYTES in $(seq 400000 20000 900000); do
    "$POSEIDON_MPIRUN" 2 "$emulated" train --engine=cuda --tune=share-gpu --solver=plain.prototxt --max-iter=1 \
        --comm=allreduce --tune=wire=bf16 >log 2>&1 && break
    grep -q 'memory is full: the residuals of encoded gradients needs .* MiB' log && told=yes && break
done
[ -n "${told:-}" ] || { cat log; fail 'encoded gradients without memory for them: not told of'; }
finish
