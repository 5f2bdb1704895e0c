#!/bin/sh
# scripts/coverage.sh GCOV SOURCE-FOLDER
# Run in a build folder configured with --enable-coverage after the tests: prints, per file of
# src/, how many of its lines they executed, worst last; then by folder, and in all.
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
        # absolute, relative to the source folder, or relative by way of the root folder
        if (index(file, root) != 1 && sub(/^(\.\.\/)+/, "", file) && file !~ /^src\//) file = "/" file
        if (index(file, root) == 1) file = substr(file, length(root) + 1)
        if (file !~ /^src\//) file = ""
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
            folder = file
            sub(/\/[^\/]*$/, "", folder)
            for (i = 0; i < 2; i++) {
                total[folder] += lines[file]
                hit[folder] += lines[file] * percent[file] / 100
                folder = "in all"
            }
        }
        close("sort -rn")
        for (folder in total)
            if (folder != "in all")
                printf "%6.1f %% of %5d  %s\n", 100 * hit[folder] / total[folder], total[folder], folder | "sort -rn"
        close("sort -rn")
        folder = "in all"
        if (total[folder]) printf "%6.1f %% of %5d  in all\n", 100 * hit[folder] / total[folder], total[folder]
    }'
