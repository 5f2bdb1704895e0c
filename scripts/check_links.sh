#!/bin/sh
# check_links.sh BUILD [SOURCE]: which folder of src and cuda takes which other's names when the
# objects below BUILD are linked. The rules are those of check_layers.sh: an include may be missing
# where a name is declared by hand, a link cannot. Prints every name that goes against the order,
# every permission that neither a name nor an include needs, and every name that no other object
# takes, but for the library's and those that tests alone use (tests/unused.txt); each ends with 1.
set -eu
source=$(cd "${2:-$(dirname "$0")/..}" && pwd)
# The module beside libposeidon.so has functions of util/error.h of its own (cuda/module.c), which nothing else is linked with.
# Registries that are meant to know what stands above them: folder, name.
known='engine engine_cpu
engine engine_replay
engine engine_cuda'
rules=$(sed -n "/^rules='/,/^'/p" "$(dirname "$0")/check_layers.sh" | sed '1d;$d')
{
    (cd "$1" && find src cuda -name '*.o' 2>/dev/null | LC_ALL=C sort | xargs nm -A -g)
    (cd "$source" && grep -Er --include='*.[ch]' --include='*.cu' --include='*.cuh' \
        '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' src cuda)
} | awk -v rules="$rules" -v known="$known" -v unused="$source/tests/unused.txt" '
function folder_of(path,   parts, n) {
    sub("^src/((base|comm|nn|app)/)?", "", path)
    n = split(path, parts, "/")
    return n > 2 && (parts[1] "/" parts[2]) in allowed ? parts[1] "/" parts[2] : parts[1]
}
BEGIN {
    n = split(rules, lines, "\n")
    for (i = 1; i <= n; i++)
        if (split(lines[i], word, " ") > 1) {
            rest = lines[i]
            sub(/^[^ ]+ +/, "", rest)
            allowed[word[1]] = rest == "-" ? "" : rest
        }
    n = split(known, lines, "\n")
    for (i = 1; i <= n; i++)
        meant[lines[i]] = 1
    while ((getline line <unused) > 0)
        if (line !~ /^#/)
            meant[line] = 1
    meant["main"] = 1
}
/#[ \t]*include/ {
    split($0, part, "\"")
    sub(/:.*/, "", $1)
    needed[folder_of($1) " " folder_of(part[2])] = 1
    next
}
{
    file = $1
    sub(/:.*/, "", file)
    name = $NF
    kind = $(NF - 1)
    if (kind == "U") {
        user[++nused] = file
        used[nused] = name
    } else if (kind ~ /^[TDBRCVWi]$/ && !(name in home) && !(file ~ /-module\.o$/ && name ~ /^error_/))
        home[name] = file
}
END {
    if (!nused) {
        print "no objects below this folder"
        exit 1
    }
    for (i = 1; i <= nused; i++) {
        if (!(used[i] in home))
            continue
        taken[used[i]] = 1
        from = folder_of(user[i])
        to = folder_of(home[used[i]])
        needed[from " " to] = 1
        if (from == to || index(" " allowed[from] " ", " " to " ") || (from " " used[i]) in meant)
            continue
        print user[i] " takes " used[i] " of " home[used[i]] ": " from " may not use " to
        wrong = 1
    }
    for (from in allowed) {
        n = split(allowed[from], word, " ")
        for (i = 1; i <= n; i++)
            if (!((from " " word[i]) in needed)) {
                print from " needs nothing of " word[i] ": take it out of scripts/check_layers.sh"
                wrong = 1
            }
    }
    for (name in home)
        if (!(name in taken) && !(name in meant) && name !~ /^(poseidon_|__odr_asan[.])/ && home[name] !~ /\.pb-c\.o$/ && name !~ /\.resolver$/) {
            print home[name] ": no other object takes " name ": make it static, or delete it"
            wrong = 1
        }
    if (!wrong)
        print nused " names keep the order of the folders"
    exit wrong
}'
