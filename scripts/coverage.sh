#!/bin/sh
# scripts/coverage.sh GCOV SOURCE-FOLDER
# Run in a build folder configured with --enable-coverage after the tests: prints, per file of
# src/, how many of its lines they executed, worst last, and the sum.
set -eu
gcov=$1
source=$2
find . -name '*.gcda' -path './src/*' | sort >coverage.list
[ -s coverage.list ] || { echo 'no counts: did any test run?' >&2; exit 1; }
while read -r counts; do
    "$gcov" -n -o "$(dirname "$counts")" "$counts" 2>/dev/null
done <coverage.list | awk -v root="$source/" '
    /^File / {
        file = $0
        sub(/^File ./, "", file)
        sub(/.$/, "", file)
        if (index(file, root) == 1) file = substr(file, length(root) + 1)
        else if (file !~ /^(\.\.\/)*src\//) file = ""
        sub(/^(\.\.\/)+/, "", file)
        if (file ~ /\.pb-c\./) file = ""
    }
    /^Lines executed:/ && file != "" {
        split($0, part, /[:% ]+/)
        # A header counts once per object that includes it: the best count stands.
        if (!(file in percent) || part[3] > percent[file]) percent[file] = part[3]
        lines[file] = part[5]
        file = ""
    }
    END {
        for (file in percent) {
            printf "%6.1f %% of %5d  %s\n", percent[file], lines[file], file | "sort -rn"
            total += lines[file]
            hit += lines[file] * percent[file] / 100
        }
        close("sort -rn")
        if (total) printf "%6.1f %% of %5d  in all\n", 100 * hit / total, total
    }'
