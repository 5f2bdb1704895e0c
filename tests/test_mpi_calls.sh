#!/bin/sh
# No MPI call's status is dropped: each stands in MPI_TRY or MPI_CHECK, a condition or an assignment, or behind a
# (void) that says it does not matter. Only questions about a communicator, and the end, may go unasked.
set -u
cd "${abs_top_srcdir:?}" || exit 99

# Prints FILE:LINE: CALL for each call that begins a statement.
unchecked() {
    awk '
        FNR == 1 { inside = 0; before = ";" }
        {
            line = $0
            if (inside) { # a comment that began on a line before
                if (!match(line, /\*\//)) next
                line = substr(line, RSTART + 2)
                inside = 0
            }
            while (match(line, /\/\*/)) {
                head = substr(line, 1, RSTART - 1)
                rest = substr(line, RSTART + 2)
                if (match(rest, /\*\//)) line = head " " substr(rest, RSTART + 2)
                else { line = head; inside = 1 }
            }
            sub(/\/\/.*/, "", line)
            if (line ~ /^[ \t]*#/) next
            while (match(line, /MPIX?_[A-Z][a-z_0-9]+[ \t]*\(/)) {
                head = before substr(line, 1, RSTART - 1)
                call = substr(line, RSTART, RLENGTH - 1)
                sub(/[ \t]+$/, "", head)
                if (head ~ /([;{})]|else)$/ && head !~ /\(void\)$/ &&
                    call !~ /^MPI_(Comm_rank|Comm_size|Comm_free|Get_processor_name|Finalize|Abort)$/)
                    print FILENAME ":" FNR ": " call
                before = head call
                line = substr(line, RSTART + RLENGTH - 1)
            }
            if (line !~ /^[ \t]*$/) {
                before = before line
                sub(/[ \t]+$/, "", before)
                before = substr(before, length(before) > 16 ? length(before) - 15 : 1)
            }
        }' "$@"
}

# the rule itself: what it must see, and what it must let through
sample=$(mktemp) || exit 99
trap 'rm -f "$sample"' EXIT
cat >"$sample" <<'END'
void f(void)
{
    MPI_Bcast(a, 1, MPI_INT, 0, comm);
    if (x) /* why */
        MPI_Send(a);
    else
        MPI_Recv(a);
    for (;;) {
        MPI_Barrier(comm); }
    MPI_TRY(
        MPI_Win_allocate_shared(1));
    MPI_CHECK(MPI_Reduce(a)); // MPI_Bcast(a);
    /* MPI_Bcast(a);
     * MPI_Bcast(b); */
    code = MPI_Gather(a);
    code =
        MPI_Testsome(a);
    if (MPI_Wait(a) != MPI_SUCCESS && MPI_Test(a))
        (void)MPI_Barrier(comm);
    MPI_Comm_rank(comm, &rank);
}
END
found=$(unchecked "$sample" | sed 's/.*: //' | tr '\n' ' ')
[ "$found" = 'MPI_Bcast MPI_Send MPI_Recv MPI_Barrier ' ] || {
    echo "FAILED: of the sample, these are seen as unchecked: $found"
    exit 1
}

find src cuda -name '*.[ch]' -o -name '*.cu' | sort >"$sample"
[ "$(wc -l <"$sample")" -gt 100 ] || { echo 'FAILED: no sources are found'; exit 1; }
# names of sources hold no spaces
# shellcheck disable=SC2046
found=$(unchecked $(cat "$sample"))
[ -z "$found" ] || {
    echo 'FAILED: the status of these calls is dropped; use MPI_CHECK or MPI_TRY (src/base/util/agree.h):'
    echo "$found"
    exit 1
}

# who shares a machine is asked in one place
# shellcheck disable=SC2046
found=$(grep -l MPI_Comm_split_type $(cat "$sample") | tr '\n' ' ')
[ "$found" = 'src/base/util/topology.c ' ] || {
    echo "FAILED: MPI_Comm_split_type stands in $found; take the topology (src/base/util/topology.h) instead"
    exit 1
}
