#!/bin/sh
# The wire driven by ranks, without a sync: wire_ranks.c says what each scenario checks.
# POSEIDON_SEEDS: how many times traffic is repeated, with other delays each time (16).
set -u
program=${abs_top_builddir:?}/tests/wire/wire_ranks
seeds=${POSEIDON_SEEDS:-16}
failures=0
while read -r ranks scenario; do
    case $ranks in '' | '#') continue ;; esac
    # shellcheck disable=SC2086
    if "$POSEIDON_MPIRUN" "$ranks" "$program" $scenario; then
        echo "ok: $ranks ranks, $scenario"
    else
        echo "FAILED ($?): $ranks ranks, $scenario"
        failures=$((failures + 1))
    fi
done <<END
1 traffic $seeds
2 traffic $seeds
3 traffic $seeds
4 traffic $seeds
7 traffic $seeds
1 order
2 order
4 order
1 calls
2 calls
1 others
2 others
7 others
# one fails, each in another place
1 failing c
1 failing m
2 failing c-
3 failing -p-
3 failing --d
4 failing ---a
3 failing l--
2 failing -e
3 failing -m-
# several at once: of compute threads the lowest counts
3 failing -mm
7 failing ---m-mm
4 failing -cm-
7 failing pm-ca-d
3 failing ccc
4 failing mmmm
1 unstarted
2 unstarted
4 unstarted
4 unstarted fail
1 closing
2 closing
3 closing
1 polled
2 polled
1 lengths
2 lengths
2 stopped
4 stopped
END

# Over TCP, which is done with small messages as soon as they are in a socket; shared memory is not.
for size in small tiny; do
    if OMPI_MCA_btl=self,tcp OMPI_MCA_btl_tcp_if_include=lo "$POSEIDON_MPIRUN" 2 "$program" window $size; then
        echo "ok: the window holds $size messages back"
    else
        echo "FAILED: the window does not hold $size messages back"
        failures=$((failures + 1))
    fi
done

# Our own mistakes end in an assertion, not in something else later.
for kind in thread buffer close destroy; do
    text=$("$POSEIDON_MPIRUN" 1 "$program" misuse "$kind" 2>&1) # whole: mpirun does not bear a closed pipe
    case $text in
    *Assertion*failed*) echo "ok: misuse ($kind) is noticed" ;;
    *)
        echo "FAILED: misuse ($kind) is not noticed: $text"
        failures=$((failures + 1))
        ;;
    esac
done
exit $((failures > 0))
