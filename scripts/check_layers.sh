#!/bin/sh
# check_layers.sh [FOLDER]: which folder of src and cuda may include which, checked in the sources below FOLDER (the
# repository). Prints every include that goes against the order and ends with 1; a lower folder may not know a
# higher one, so that each can be read, tested and used without what stands on it.
set -eu
cd "${1:-$(dirname "$0")/..}"

# The first rule: base includes base alone; comm and nn include base and themselves, never each other; app includes all.
# Each wing and its rooms. cuda stands beside nn.
wings='
base util device trace
comm wire plan timeline simulate sync exchange library
nn   spec engine engine/cpu engine/replay input convert layers net snapshot cuda
app  forecast report job compute keep watch say loop commands
'

# Each folder and all that it may include. Folders that are not named are refused. cpu and replay are folders of
# their own: who computes is asked through engine.h.
rules='
util          -
device        util
spec          util
engine        util device
engine/cpu    util device engine
engine/replay util device engine
cuda          util device engine
trace         util
wire          util
plan          util device
timeline      util trace plan
simulate      util plan wire
sync          util device trace wire plan
exchange      util plan simulate sync
library       util device trace timeline plan sync exchange
input         util spec device engine trace
convert       util spec engine input
layers        util spec engine input
net           util spec device engine trace layers
forecast      util engine engine/replay plan simulate sync net exchange
snapshot      util spec engine net
report        util engine plan sync net
job           util spec device engine sync exchange layers net snapshot
compute       util device engine plan sync exchange net forecast snapshot report job
keep          util device engine sync net snapshot report job
watch         util plan sync exchange layers net snapshot report job compute keep
say           util engine trace timeline plan sync exchange input layers net snapshot report job compute keep watch
loop          util device engine trace sync exchange layers net forecast snapshot report job compute keep watch say
commands      util spec engine engine/replay cuda trace plan sync exchange input convert layers net forecast snapshot report job keep watch loop
'

# Where MPI may be seen: mpi.h, and those headers of util that include it. A folder, or files by a pattern.
mpi='util wire timeline sync library report job compute keep watch say loop commands plan/probe* exchange/exchange* exchange/measure* exchange/sharers* exchange/lost*'

# Temporary: "FILE HEADER" that goes against the rules and is about to go. One that is not needed any more is an error.
exceptions='
'

find src cuda -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) 2>/dev/null | LC_ALL=C sort |
    xargs grep -Hn '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' /dev/null |
    awk -v wings="$wings" -v rules="$rules" -v mpi="$mpi" -v exceptions="$exceptions" '
# "src/nn/engine/cpu/lrn.c" and "engine/cpu/lrn.c" -> "engine/cpu": includes name no wing; of deeper folders only those
# with rules
function folder_of(path,   parts, n) {
    sub(wing, "", path)
    n = split(path, parts, "/")
    if (n > 2 && (parts[1] "/" parts[2]) in known)
        return parts[1] "/" parts[2]
    return n > 1 ? parts[1] : ""
}

function complain(text) {
    print text
    wrong = 1
}

# The first rule, for every pair of the table.
function check_wings(folder,   parts, n, i, from, to) {
    from = wing_of[folder]
    if (from == "")
        complain("the folder " folder " is in no wing of scripts/check_layers.sh")
    n = split(allowed[folder], parts, " ")
    for (i = 1; i <= n; i++) {
        to = wing_of[parts[i]]
        if (from != "app" && to != from && to != "base")
            complain("the rules let " folder " of " from " include " parts[i] " of " to)
    }
}

# A folder that could reach itself would make a rule of the table worthless.
function visit(folder, way,   parts, n, i) {
    if (state[folder] == 2)
        return
    if (state[folder] == 1) {
        complain("the rules go in a circle: " way folder)
        return
    }
    state[folder] = 1
    n = split(allowed[folder], parts, " ")
    for (i = 1; i <= n; i++)
        visit(parts[i], way folder " -> ")
    state[folder] = 2
}

function sees_mpi(file, folder,   parts, n, i) {
    sub(wing, "", file)
    n = split(mpi, parts, " ")
    for (i = 1; i <= n; i++) {
        if (parts[i] ~ /\*$/ && index(file, substr(parts[i], 1, length(parts[i]) - 1)) == 1)
            return 1
        if (parts[i] == folder)
            return 1
    }
    return 0
}

BEGIN {
    wing = "^src/((base|comm|nn|app)/)?"
    n = split(wings, lines, "\n")
    for (i = 1; i <= n; i++)
        for (k = split(lines[i], word, " "); k > 1; k--)
            wing_of[word[k]] = word[1]
    n = split(rules, lines, "\n")
    for (i = 1; i <= n; i++) {
        if (split(lines[i], word, " ") < 2)
            continue
        known[word[1]] = 1
        rest = lines[i]
        sub(/^[^ ]+ +/, "", rest)
        allowed[word[1]] = rest == "-" ? "" : rest
    }
    for (folder in known) {
        check_wings(folder)
        visit(folder, "")
    }
    n = split(exceptions, lines, "\n")
    for (i = 1; i <= n; i++)
        if (split(lines[i], word, " ") == 2)
            excepted[word[1] " " word[2]] = 1
}

{
    file = $0; sub(/:.*/, "", file)
    place = $0; sub(/^[^:]*:/, "", place); sub(/:.*/, "", place)
    header = $0; sub(/^[^:]*:[^:]*:[^"<]*["<]/, "", header); sub(/[">].*/, "", header)
    nincludes++
    at_file[nincludes] = file
    at_line[nincludes] = place
    at_header[nincludes] = header
    if (header == "mpi.h" && folder_of(file) == "util" && file ~ /\.h$/) {
        sub(wing, "", file)
        brings_mpi[file] = 1
    }
}

END {
    if (nincludes == 0)
        complain("no sources below this folder")
    for (i = 1; i <= nincludes; i++) {
        file = at_file[i]
        header = at_header[i]
        where = file ":" at_line[i] ": "
        folder = folder_of(file)
        if (!(folder in known)) {
            if (!told[folder]++)
                complain(where "the folder " folder " has no rule in scripts/check_layers.sh")
            continue
        }
        if (file ~ /^src/ && index(file, "src/" wing_of[folder] "/") != 1)
            complain(where folder " belongs into src/" wing_of[folder])
        broken = header ~ /\.\./ ? header ": name it from src" : ""
        if ((header == "mpi.h" || header in brings_mpi) && !sees_mpi(file, folder))
            broken = header ": MPI is not to be seen here"
        to = folder_of(header)
        if (to in known && to != folder && index(" " allowed[folder] " ", " " to " ") == 0)
            broken = header ": " folder " may not include " to
        if (broken == "")
            continue
        if ((file " " header) in excepted)
            used[file " " header] = 1
        else
            complain(where broken)
    }
    for (pair in excepted)
        if (!(pair in used))
            complain("the exception \"" pair "\" is not needed any more: take it out of scripts/check_layers.sh")
    if (!wrong)
        printf "%d includes keep the order of the folders\n", nincludes
    exit wrong
}'
