#!/bin/sh
# Writes what the tests of one "make check-faults" counted into tests/RELIABILITY.md: its rows "counted: ..." and its last section. In
# its build folder:
#
#     sh ../tests/long/reliability.sh
#
# A test that failed or did not run ends it; one that was skipped is named. Tests count in lines
# "counted: FAULT | INJECTED | SURVIVED | LOST [| WHAT WAS SEEN [| SECONDS TO NOTICE]]", and "soaked: ..." for what is no fault. Where
# a row stands is decided by hand, once: what has no row yet, or a row and no count any more, is shown, and ends it, too.
set -eu
table=$(cd "$(dirname "$0")/.." && pwd)/RELIABILITY.md
cd "${1:-.}"
tests='tests/snapshot/test_faults tests/mpi/test_clock tests/long/test_many_kills tests/cluster/test_links tests/cluster/test_doctor_box tests/cluster/test_slurm
    tests/cluster/test_pbs tests/cluster/test_keep_running tests/long/test_long_soak'
for test in $tests; do
    case $(sed -n 's/^:test-result: //p' "$test.trs" 2>/dev/null) in
    PASS | SKIP) ;;
    '') echo "reliability.sh: $test did not run here: make check-faults" >&2 && exit 1 ;;
    *) echo "reliability.sh: $test failed: $PWD/$test.log" >&2 && exit 1 ;;
    esac
done
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
skipped=
for test in $tests; do
    name=$test.sh
    [ ! -e "$test" ] || name=$test # a program
    ! grep -q '^:test-result: SKIP' "$test.trs" || skipped="$skipped $name"
    sed -n 's/^counted: //p' "$test.log" | awk -F ' [|] ' -v test="$name" '{
        printf "| %s | counted: `%s` | %s injected; survived: %s; lost: %s%s | %s |\n",
            $1, test, $2, $3, $4, $5 == "" ? "" : "; " $5, $6 == "" ? "-" : $6 }'
done >"$folder/rows"
awk -F ' [|] ' -v skipped="$skipped " 'function key() { return $1 " | " $2 }
    NR == FNR { row[key()] = $0; next }
    / [|] counted: `/ && key() in row { print row[key()]; used[key()] = 1; next }
    / [|] counted: `/ {
        split($2, test, "`")
        if (!index(skipped, " " test[2] " ")) { print "a row of RELIABILITY.md that is not counted: " $0 >"/dev/stderr"; missing = 1 }
    }
    { print }
    /^## The last count/ { exit }
    END {
        for (k in row)
            if (!(k in used)) { print "a row for RELIABILITY.md: " row[k] >"/dev/stderr"; missing = 1 }
        exit missing
    }' "$folder/rows" "$table" >"$folder/table"
{
    cat "$folder/table"
    echo
    echo "$(date +%Y-%m-%d); $(uname -sm), $(getconf _NPROCESSORS_ONLN) cores, $(${MPIRUN:-mpirun} --version | head -n 1), $(./poseidon --version | sed -n '1p; s/^sources  */sources /p' | tr '\n' ',' | sed 's/,$//; s/,/, /g')."
    for name in $skipped; do
        printf '\nNot run, and as counted before: %s: %s.\n' "\`$name\`" "$(grep -v '^SKIP' "${name%.sh}.log" | tail -n 1 | sed 's/\.$//')"
    done
    sed -n 's/^soaked: /\n/p' tests/long/test_long_soak.log
} >"$folder/whole"
cat "$folder/whole" >"$table"
