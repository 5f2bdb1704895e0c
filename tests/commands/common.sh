# For the scripts of this folder: what poseidon says and leaves.
# shellcheck shell=sh
. "${abs_top_srcdir:?}/tests/common.sh"

# run ARGUMENT...: standard output in $out, standard error in $err, the status in $status.
run() {
    timeout "${limit:-600}" "${program:-$POSEIDON}" "$@" >"$folder/.out" 2>"$folder/.err"
    status=$?
    out=$(cat "$folder/.out")
    err=$(cat "$folder/.err")
}

# works PATTERN ARGUMENT...: status 0, and PATTERN (of the shell's case) among all that is said.
works() {
    pattern=$1
    shift
    run "$@"
    [ "$status" -eq 0 ] || fail "$*: status $status: $err"
    has "$out
$err" "$pattern" "$*"
}

# refuses PATTERN ARGUMENT...: status 1, nothing on standard output, PATTERN in the message.
refuses() {
    pattern=$1
    shift
    run "$@"
    [ "$status" -eq 1 ] || fail "$*: status $status"
    [ -z "$out" ] || fail "$*: prints '$out'"
    has "$err" "$pattern" "$*"
}

# has TEXT PATTERN WHO
has() {
    case $1 in
    *$2*) ;; # unquoted: a pattern
    *) fail "$3: expected '$2', found '$1'" ;;
    esac
}

lacks() {
    case $1 in
    *$2*) fail "$3: did not expect '$2', found '$1'" ;;
    esac
}
