# shellcheck shell=sh
# What the tests in boxes share: where the program is, a count of failures, solvers of LeNet, digests of what was trained.
: "${abs_top_srcdir:=$(cd "${here:?}/../.." && pwd)}" "${POSEIDON:=$abs_top_srcdir/build/poseidon}"
export abs_top_srcdir POSEIDON
failures=0

fail() {
    echo "FAIL: $1"
    failures=$((failures + 1))
}

# solver PREFIX ITERATIONS EVERY: writes PREFIX.prototxt, for net.prototxt in this folder, with a snapshot every so often
solver() {
    cat >"$1.prototxt" <<END
net: "net.prototxt"
base_lr: 0.01 momentum: 0.9 lr_policy: "fixed" display: 50
max_iter: $2 snapshot: $3 snapshot_prefix: "$1" random_seed: 1
END
}

sha256() { # SUMMARY: of the parameters at the end; nothing where there is no such file
    [ ! -e "$1" ] || sed -n 's/.*"parameters_sha256": *"\([0-9a-f]*\)".*/\1/p' "$1"
}
