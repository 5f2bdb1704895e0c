#!/bin/sh
# Whatever the net, the link and the layout: by the player's own seconds nothing that --comm could name is faster than
# auto by more than 0.05 %, merged or not, with the usual window, twice and four times that. AUTO_CELLS="NET ..." takes these nets alone.
set -u
. "${abs_top_srcdir:?}/tests/common.sh"
cd "$abs_top_srcdir" || exit 1

# play NET ARGUMENT...: "NODES SECONDS" lines
play() {
    case $1 in
    vgg19_22k) how='--images-per-second=35' ;;
    resnet50) how='--profile=p100' ;;
    googlenet) how='--profile=titanx --batch=128' ;;
    *) how='--profile=titanx' ;;
    esac
    model=models/$1/train_val.prototxt
    shift
    # shellcheck disable=SC2086 # a list of options
    "$POSEIDON" plan --model="$model" $how --json "$@" 2>"$folder/said" |
        awk -F'[:,]' '/"nodes"/ { nodes = $2 + 0 } /"seconds"/ { print nodes, $2 + 0 }'
}

# The usual window of a link: 16 chunks, which are twenty times what it carries in a latency and a message (35 us).
window() { echo $(($1 / 1000000 * 35 * 20 / 4096 * 4096 * 16)); }

cells=0
for net in ${AUTO_CELLS:-googlenet vgg19 vgg19_22k resnet152 resnet50 alexnet}; do
    for link in 125000000 1250000000; do
        for layout in '' '--ranks-per-node=4' '--ranks-per-node=4 --hierarchy=off' '--servers=2' '--tune=overlap=backward'; do
            # on one node auto asks nobody; two servers leave no worker of two
            nodes=2,4,8,16
            [ "$layout" = '--servers=2' ] && nodes=4,8,16
            all="--nodes=$nodes --bandwidth=${link}B $layout"
            # shellcheck disable=SC2086
            play "$net" $all >"$folder/auto"
            [ -s "$folder/auto" ] || fail "$net $all: $(tail -n 1 "$folder/said")"
            cells=$((cells + $(wc -l <"$folder/auto")))
            for comm in paper ps sfb allreduce; do
                for merge in '' '--tune=merge=0'; do
                    for times in 1 2 4; do
                        # shellcheck disable=SC2086
                        play "$net" $all --comm=$comm $merge --tune=window=$((times * $(window $link))) >"$folder/named"
                        awk -v named="--comm=$comm $merge, window x$times" 'NR == FNR { auto[$1] = $2; next }
                            $2 < auto[$1] * (1 - 5e-4) {
                                printf "%s: %g s by %s, %g by auto (%.3f %%)\n", $1, $2, named, auto[$1], 100 * (auto[$1] / $2 - 1)
                            }' "$folder/auto" "$folder/named" >"$folder/faster"
                        [ -s "$folder/faster" ] && fail "$net $all: LOSES at nodes $(cat "$folder/faster")"
                    done
                done
            done
        done
    done
done
echo "$cells cells"
finish
