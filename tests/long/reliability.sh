#!/bin/sh
# The table of tests/RELIABILITY.md on standard output, of what the tests of one "make check-faults" counted. In its build folder:
#
#     sh ../tests/long/reliability.sh >../tests/RELIABILITY.md
#
# A test that failed or did not run ends it; one that was skipped is named. Tests count in lines
# "counted: FAULT | INJECTED | SURVIVED | LOST", and "soaked: ..." for what is no fault.
set -eu
cd "${1:-.}"
tests='tests/snapshot/test_faults tests/mpi/test_clock tests/long/test_many_kills tests/cluster/test_links tests/cluster/test_slurm
    tests/cluster/test_pbs tests/cluster/test_keep_running tests/long/test_long_soak'
for test in $tests; do
    case $(sed -n 's/^:test-result: //p' "$test.trs" 2>/dev/null) in
    PASS | SKIP) ;;
    '') echo "reliability.sh: $test did not run here: make check-faults" >&2 && exit 1 ;;
    *) echo "reliability.sh: $test failed: $PWD/$test.log" >&2 && exit 1 ;;
    esac
done
cat <<END
# Reliability

Faults injected into trainings and their snapshots in one \`make check-faults\`, counted by \`tests/long/reliability.sh\` on
$(date +%Y-%m-%d); $(uname -sm), $(getconf _NPROCESSORS_ONLN) cores, $(${MPIRUN:-mpirun} --version | head -n 1), $(./poseidon --version | sed -n '1p; s/^sources  */sources /p' | tr '\n' ',' | sed 's/,$//; s/,/, /g').

| fault | injected | survived | lost | shown by |
|---|---|---|---|---|
END
for test in $tests; do
    name=$test.sh
    [ ! -e "$test" ] || name=$test # a program
    sed -n "s|^counted: \(.*\)|\| \1 \| \`$name\` \||p" "$test.log"
done
cat <<END

Survived: the snapshots before stay whole and the next one is good; a run that was killed, cut off or put back ends with the
parameters of the run that nobody disturbed, bit for bit; a run that is held up goes on, and the right rank and host are named where
that takes a minute or more.
END
for test in $tests; do
    if grep -q '^:test-result: SKIP' "$test.trs"; then
        printf '\nNot run: %s: %s.\n' "\`$test.sh\`" "$(grep -v '^SKIP' "$test.log" | tail -n 1 | sed 's/\.$//')"
    fi
done
sed -n 's/^soaked: /\n/p' tests/long/test_long_soak.log
