#!/bin/sh
# make_man.sh POSEIDON TEMPLATE: the manual page on standard output. The commands' own --help is its
# source, so that the two cannot differ.
set -eu
poseidon=$1
template=$2

escape() {
    sed -e 's/\\/\\\\/g' -e 's/-/\\-/g' -e "s/^\\([.']\\)/\\\\\\&\\1/"
}

# Verbatim, as --help prints it: people find the same words in both places.
commands() {
    "$poseidon" help | sed -n 's/^  \([a-z_]*\)  *.*/\1/p' | while read -r command; do
        [ "$command" != help ] || continue
        printf '.SS %s\n.nf\n' "$command"
        "$poseidon" "$command" --help | escape
        printf '.fi\n'
    done
}

while IFS= read -r line; do
    case $line in
    @COMMANDS@) commands ;;
    *) printf '%s\n' "$line" ;;
    esac
done <"$template"
