#!/bin/sh
# --lossy: on a slow network auto takes what rounds gradients, says what that saves and costs, and trains as well; without it,
# on a fast network, on one machine and after a run without it, nothing is rounded. A scheme that moves nothing is named.
. "$abs_top_srcdir/tests/mpi/common.sh"
make_solver solver.prototxt 'max_iter: 30' 'display: 1' 'snapshot_after_train: true' "snapshot_prefix: \"$work/s\""

cluster() { # FILE BYTES-PER-SECOND
    cat >"$1" <<END
ranks = 3
ranks_per_node = 3
latency_seconds = 30e-6
message_seconds = 5e-6
link_bytes_per_second = $2
local_bytes_per_second = $2
gemm_flops = 20e9
copy_bytes_per_second = 5e9
sum_bytes_per_second = 3e9
served_bytes_per_second = 0
transport_bytes_per_second = 2.5e9
core_share = 0
END
}
cluster slow 2e6
cluster fast 1e12
apart="--threads=1 --hierarchy=off"

# said NAME TEXT: its log has that
said() {
    grep -q -e "$2" "$1.log" || fail "$1: '$2' was not said: $(grep -e --lossy "$1.log")"
}

# rounded NAME: whether the report has a layer that is
rounded() {
    grep -A 12 '"scheme_by_layer"' "$1.json" | grep -q 'low rank\|bf16\|1-bit'
}

# shellcheck disable=SC2086 # words
{
    trained exact 3 $apart --tune=cluster-file=slow
    trained lossy 3 $apart --tune=cluster-file=slow --lossy=bf16,lowrank:2,onebit --tune=lowrank-warmup=0 --tune=check-sync=5
    trained again 3 $apart --tune=cluster-file=slow --lossy=bf16,lowrank:2,onebit --tune=lowrank-warmup=0
    trained fast 3 $apart --tune=cluster-file=fast --lossy=bf16,lowrank:2,onebit
}
said lossy 'Simulated time of an iteration by --comm: paper .* lowrank:2 .*, mixed lossy .*(taken)'
said lossy '--lossy: by the model [0-9.]* times as fast as the best exact plan; [1-4] of 4 layers travel as .*: their gradients are rounded'
rounded lossy || fail 'on a slow network nothing is rounded'
rounded exact && fail 'something is rounded without --lossy'
grep -q -e --lossy exact.log && fail 'a word of --lossy without it'
said fast '--lossy: nothing is rounded: the model finds no lossy plan more than 1 % faster'
rounded fast && fail 'on a fast network something is rounded'
same 'parameters of two runs' "$(hash_of lossy.json)" "$(hash_of again.json)"
[ "$(hash_of lossy.json)" != "$(hash_of exact.json)" ] || fail 'it trains as without it'
less=$(awk -v a="$(json_value lossy.json bytes_sent_per_iteration)" -v b="$(json_value exact.json bytes_sent_per_iteration)" \
    'BEGIN { print a < b / 2 }')
same 'it sends less than half' 1 "$less"
# it learns as well: the loss of the last iteration
all_losses exact.log | tail -n 1 >one
all_losses lossy.log | tail -n 1 >other
paste one other | awk '{ exit !(NF == 4 && $4 < 1.5 * $2 + 0.2) }' || fail "losses: $(paste one other)"

# whole gradients are not summed by a plan of factors
rm -f s_iter_*
# shellcheck disable=SC2086
{
    trained factors 3 $apart --tune=cluster-file=slow --max-iter=4
    solved whole 3 $apart --tune=cluster-file=slow --max-iter=6 --global-batch=24 --reproducible=4 --snapshot="$work/s_iter_4.solverstate.h5"
}
grep -q '"SFB"' factors.json || fail "no layer sends factors: $(grep -A 12 '"scheme_by_layer"' factors.json)"
grep -q '"SFB"' whole.json && fail 'with --reproducible a resumed run sends factors'

# a run goes on as it began, and chooses again where --lossy says something else
rm -f s_iter_*
# shellcheck disable=SC2086
{
    trained begun 3 $apart --tune=cluster-file=slow --lossy=lowrank:2 --run=it --max-iter=10
    trained same 3 $apart --tune=cluster-file=fast --lossy=lowrank:2 --resume --run=it --max-iter=12
    rm -f s_iter_12.*
    trained other 3 $apart --tune=cluster-file=fast --lossy=lowrank:1 --resume --run=it --max-iter=12
    rm -f s_iter_12.*
    trained none 3 $apart --tune=cluster-file=slow --resume --run=it --max-iter=12
}
said same "Using the resumed run's schemes"
rounded same || fail 'the resumed run rounds nothing'
for run in other none; do
    grep -q "Using the resumed run's schemes" $run.log && fail "$run: goes on with what --lossy does not name"
    grep -q "The resumed run's schemes do not fit this start: choosing again" $run.log || fail "$run: no word of the plan that is not kept"
    rounded $run && fail "$run: rounds"
done

# where nobody chooses
# shellcheck disable=SC2086
{
    trained machine 2 --threads=1 --lossy=bf16 --max-iter=2
    trained rule 2 $apart --lossy=bf16 --max-iter=2
}
said machine "--lossy: nothing is rounded: all gradients stay in this machine's memory"
said rule '--lossy: nothing is rounded: on one machine without a cluster file, schemes follow the paper'

# LeNet's layers are too small for factors of rank 200; of rank 4 those of its last have more than half its elements
sed 's/num_output: [25]0$/num_output: 2/; s/num_output: 500/num_output: 3/' net.prototxt >small.prototxt
# shellcheck disable=SC2086
trained small 2 $apart --comm=lowrank --max-iter=2 --set net="$work/small.prototxt"
said small '--comm=lowrank can move no layer of this net: all travel by --comm=ps'
trained plain 2 --comm=lowrank --max-iter=2
grep -q 'can move no layer' plain.log && fail 'LeNet has layers for --comm=lowrank'
finish
