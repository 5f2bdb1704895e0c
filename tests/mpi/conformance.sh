# Runs tables of cases of sync_conformance. Starting ranks takes longer than most cases: those of one
# number of ranks share a run.
# shellcheck shell=sh

# conformance [OPTION...] <<TABLE: a case a line, "RANKS OPTION..."; lines that start with # are
# comments. The options given here hold for all. Ends with 1 if a case failed or did not run.
conformance() {
    conformance_cases=$(mktemp) conformance_now=$(mktemp) conformance_failed=0
    grep '^[0-9]' >"$conformance_cases"
    for conformance_ranks in $(awk '!seen[$1]++ { print $1 }' "$conformance_cases"); do
        sed -n "s/^$conformance_ranks  *//p" "$conformance_cases" >"$conformance_now"
        "${POSEIDON_MPIRUN:?}" "$conformance_ranks" "${abs_top_builddir:?}/tests/mpi/sync_conformance" \
            --cases="$conformance_now" "$@" >"$conformance_now.log" || conformance_failed=1
        cat "$conformance_now.log"
        # what has no line of its own did not run
        if [ "$(grep -c '^ok:' "$conformance_now.log")" -ne "$(wc -l <"$conformance_now")" ]; then
            echo "FAILED: of $(wc -l <"$conformance_now") cases on $conformance_ranks ranks," \
                "$(grep -c '^ok:' "$conformance_now.log") passed"
            conformance_failed=1
        fi
    done
    rm -f "$conformance_cases" "$conformance_now" "$conformance_now.log"
    return "$conformance_failed"
}
