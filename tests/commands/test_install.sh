#!/bin/sh
# make install: everything in its place, links of all pages lead somewhere, bash completes what --help lists,
# a Caffe that is there is left alone; uninstall leaves nothing.
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
make=${MAKE:-make}
unset MAKEFLAGS MFLAGS MAKELEVEL
place=$folder/place
there=$place/usr/share/poseidon
# make GOAL...: nothing is built, for other tests run what is there
install() {
    "$make" -s -C "$abs_top_builddir" -o poseidon "$@" DESTDIR="$place" prefix=/usr exec_prefix=/usr bindir=/usr/bin libdir=/usr/lib includedir=/usr/include datarootdir=/usr/share \
        datadir=/usr/share mandir=/usr/share/man >make.log 2>&1 || fail "make $*: $(tail -n 5 make.log)"
}

mkdir -p "$place/usr/bin"
echo 'another Caffe' >"$place/usr/bin/convert_imageset"
install install-exec-am install-data-am
for file in bin/poseidon share/man/man1/poseidon.1 share/poseidon/README.md share/poseidon/docs/caffe.md \
    share/poseidon/models/lenet/solver.prototxt share/poseidon/data/fashion-mnist-train.h5 share/poseidon/jobs/train.slurm \
    share/poseidon/jobs/train.pbs share/poseidon/jobs/attempt.sh share/bash-completion/completions/poseidon; do
    [ -f "$place/usr/$file" ] || fail "$file is not installed"
done
if [ -f "$abs_top_builddir/libposeidon.so.1" ]; then
    for file in include/poseidon.h lib/libposeidon.so.1 lib/libposeidon.so lib/pkgconfig/poseidon.pc; do
        [ -f "$place/usr/$file" ] || fail "$file is not installed"
    done
    printf '#include <poseidon.h>\n#include <stdio.h>\nint main(void) { return printf("poseidon %%s\\n", poseidon_version()) < 0; }\n' >uses.c
    # shellcheck disable=SC2086 # words
    ${CC:-mpicc} $POSEIDON_CFLAGS uses.c -I"$place/usr/include" -L"$place/usr/lib" -lposeidon -o uses >uses.log 2>&1 ||
        fail "what is installed links nothing: $(cat uses.log)"
    [ "$(LD_LIBRARY_PATH=$place/usr/lib ./uses)" = "$("$POSEIDON" --version | head -n 1)" ] || fail 'the installed library is of another version'
    PKG_CONFIG_PATH=$place/usr/lib/pkgconfig pkg-config --libs poseidon | grep -q -e -lposeidon || fail 'pkg-config does not know it'
fi
for script in tools/to_onnx.py tools/draw.py tools/report.py jobs/reproduce.sh jobs/keep_running.sh; do
    [ -x "$there/$script" ] || fail "$script cannot be run where it is installed"
done
# the tools find their common module in their own folder, without the user's paths
if python3 -c '' 2>/dev/null; then
    for tool in first_weights from_forks make_sets to_onnx weights; do
        (unset PYTHONPATH; python3 -B "$there/tools/$tool.py" --help 2>&1) | grep -q "^usage: $tool.py" || fail "$tool.py does not run where it is installed"
    done
fi
[ -x "$place/usr/bin/caffe" ] && cmp -s "$place/usr/bin/caffe" "$abs_top_srcdir/scripts/caffe" || fail 'caffe is not installed'
[ "$(cat "$place/usr/bin/convert_imageset")" = 'another Caffe' ] || fail 'another program was replaced'
for tool in compute_image_mean extract_features upgrade_net_proto_text upgrade_solver_proto_text; do
    "$place/usr/bin/$tool" --help 2>&1 | grep -q "^usage: $tool" || fail "$tool: $("$place/usr/bin/$tool" --help 2>&1)"
done

# links and pictures of the pages that are installed, and of all pages beside the sources: files, and anchors of headings
links() { # FOLDER PAGE...
    place_of=$1
    shift
    for page; do
        grep -o '](\([^)]*\))' "$place_of/$page" | sed 's/^](//; s/)$//' >links
        while read -r link; do
            case $link in
            http://* | https://*) continue ;;
            '#'*) target=$page anchor=${link#\#} ;;
            *) target=$(dirname "$page")/${link%%#*} anchor=$(printf '%s' "$link" | sed -n 's/^[^#]*#//p') ;;
            esac
            [ -e "$place_of/$target" ] || fail "$page: the link to $link leads nowhere"
            [ -z "$anchor" ] || sed -n 's/^##* //p' "$place_of/$target" | tr 'A-Z ' 'a-z-' | tr -cd 'a-z0-9_\n-' | grep -qx -e "$anchor" ||
                fail "$page: $link: no such heading"
        done <links
    done
}
pages=$(cd "$there" && find . -name '*.md' ! -path './data/*')
[ "$(printf '%s\n' "$pages" | wc -l)" -ge 4 ] || fail 'fewer pages than there should be'
# shellcheck disable=SC2086 # names without blanks
links "$there" $pages
pages=$(cd "$abs_top_srcdir" && echo *.md docs/*.md models/*/*.md tests/*.md tests/*/*.md)
# shellcheck disable=SC2086
links "$abs_top_srcdir" $pages
# files that pages name, and sections of RESULTS.md that anybody quotes
cd "$abs_top_srcdir" || exit 99
# shellcheck disable=SC2086
named=$(cat $pages | grep -oE '`(src|cuda|tests|docs|models|jobs|scripts|examples|packaging|include)/[A-Za-z0-9_/.-]*\.(md|c|h|cu|sh|py|csv|def|slurm|pbs|prototxt)`' | tr -d '`' | sort -u)
for file in $named; do
    [ -e "$file" ] || fail "$file is named by a page, and is not there"
done
grep -rhoE 'RESULTS(\.md`?)?, "[^"]*"' $pages src cuda docs/*.csv tests/gpu/run.sh | sed 's/[^"]*"//; s/"$//' | sort -u >"$folder/quoted"
cd "$folder" || exit 99
[ "$(wc -l <quoted)" -ge 3 ] || fail "fewer quotations of RESULTS.md than there should be: $(cat quoted)"
while read -r section; do
    grep '^## ' "$abs_top_srcdir/tests/bench/RESULTS.md" | grep -iqF -e "$section" || fail "RESULTS.md has no section \"$section\""
done <quoted
[ "$(wc -l <"$abs_top_srcdir/tests/bench/RESULTS.md")" -le 700 ] || fail 'RESULTS.md has more than 700 lines: newest figures alone'

# completion
if command -v bash >/dev/null; then
    cat >complete.bash <<'EOF'
source "$1"
complete_line() { # WORD...: the last one is being typed
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
    compopt() { :; }
    _poseidon
    printf '%s ' "${COMPREPLY[@]}"
    echo
}
complete_line poseidon ''
complete_line poseidon tr
complete_line poseidon train --dry
complete_line mpirun -np 2 poseidon train --so
complete_line poseidon train --resum
complete_line poseidon convert images a b --encode-type = p
complete_line poseidon help la
complete_line poseidon train --solver = ''
complete_line poseidon convert ''
complete_line poseidon train --comm = s
complete_line poseidon train --engine = c
complete_line poseidon convert weights --
EOF
    bash complete.bash "$place/usr/share/bash-completion/completions/poseidon" >completed 2>&1
    line() { sed -n "$1p" completed | sed 's/ *$//'; }
    for command in $("$POSEIDON" help | sed -n 's/^  \([a-z_]*\)  .*/\1/p'); do
        case " $(line 1) " in *" $command "*) ;; *) fail "completion lacks $command: $(line 1)" ;; esac
        [ "$command" != help ] || continue
        for option in $("$POSEIDON" "$command" --help | sed -n 's/^  \(--[a-z-]*\).*/\1/p'); do
            grep -q "'$command') words='.*$option" "$place/usr/share/bash-completion/completions/poseidon" ||
                fail "completion lacks $command $option"
        done
    done
    [ "$(line 2)" = train ] || fail "completion of 'tr': $(line 2)"
    [ "$(line 3)" = --dry-run ] || fail "completion of '--dry': $(line 3)"
    [ "$(line 4)" = --solver= ] || fail "completion behind mpirun: $(line 4)"
    [ "$(line 5)" = '--resume' ] || fail "completion of '--resum': $(line 5)"
    [ "$(line 6)" = png ] || fail "completion of a value: $(line 6)"
    [ "$(line 7)" = layers ] || fail "completion of 'help la': $(line 7)"
    [ -z "$(line 8)" ] || fail "completion of a file: $(line 8)"
    [ "$(line 9)" = 'images weights' ] || fail "completion behind convert: $(line 9)"
    [ "$(line 10)" = sfb ] || fail "completion of --comm=s: $(line 10)"
    [ "$(line 11)" = 'cpu cuda' ] || fail "completion of --engine=c: $(line 11)"
    [ "$(line 12)" = '--force --help' ] || fail "completion behind convert weights: $(line 12)"
else
    echo 'left out: completion (no bash)'
fi

install uninstall
rm "$place/usr/bin/convert_imageset"
# beside a caffe that is not ours there are no links to it
echo 'another Caffe' >"$place/usr/bin/caffe"
install install-exec-am
[ ! -e "$place/usr/bin/compute_image_mean" ] || fail "compute_image_mean leads to another's caffe"
install uninstall
[ "$(cat "$place/usr/bin/caffe")" = 'another Caffe' ] || fail 'another caffe was replaced, or removed'
rm "$place/usr/bin/caffe"
left=$(find "$place" ! -type d)
[ -z "$left" ] || fail "uninstall left $left"
[ ! -d "$there" ] || fail "uninstall left $there"
finish
