#!/bin/sh
# make_man.sh POSEIDON TEMPLATE: the manual page on standard output. The commands' own --help is its
# source, so that the two cannot differ.
set -eu
poseidon=$1
template=$2

escape() {
    sed -e 's/\\/\\\\/g' -e 's/-/\\-/g' -e "s/^\\([.']\\)/\\\\\\&\\1/"
}

# Verbatim, as --help prints it: people find the same words in both places. Not indented: lines of 80 columns fit.
show() { # HEADING WORD...
    printf '.SS %s\n.nf\n.in 0\n' "$1"
    shift
    "$poseidon" "$@" | escape
    printf '.in\n.fi\n'
}

commands() {
    "$poseidon" help | sed -n 's/^  \([a-z_]*\)  *.*/\1/p' | while read -r command; do
        [ "$command" != help ] || continue
        show "$command" "$command" --help
    done
    show tuning help tuning
}

# The types that "help layers" says are refused, in one line.
unsupported() {
    "$poseidon" help layers | sed -n '1,/^not supported:/d; s/^  \([A-Za-z0-9]\)/\1/; t name; d; : name; s/  .*//; p' | tr '\n' ' ' | sed 's/ $//; s/ /, /g'
}

while IFS= read -r line; do
    case $line in
    @COMMANDS@) commands ;;
    *@VERSION@*) printf '%s\n' "$line" | sed "s/@VERSION@/$("$poseidon" --version | sed -n 's/^poseidon //p')/" ;;
    *@UNSUPPORTED@*) printf '%s\n' "$line" | sed "s/@UNSUPPORTED@/$(unsupported)/" ;;
    *) printf '%s\n' "$line" ;;
    esac
done <"$template"
