#!/bin/sh
# Words at which readers stumbled, in what users see: README.md, the guides, the man page, every --help, and the texts
# that the program is made of. Each line of the list: a pattern of grep -E, and what to write.
set -u
cd "${abs_top_srcdir:?}" || exit 99
list=$(mktemp)
texts=$(mktemp)
trap 'rm -f "$list" "$texts"' EXIT
cat >"$list" <<'END'
\bditto\b	the thing itself
\bthat one\b	the thing's name
\b[Ww]ho computes\b	compute engine
\b[Ww]ho sends what\b	communication scheme
\bstands there twice\b	appears twice
\bis no number\b	NaN or infinite
\b1 (ranks|nodes|workers|layers|times|channels|images|iterations)\b	the singular
\b(net|file|shape|solver|log|header|name) tells\b	says, names, or has
\bdoes not tell\b	does not say
\bwhosever\b	of whichever
\bmend the (data|file)\b	fix
\bsilently\b.*\bsilently\b	once
END

find README.md docs man data/README.md packaging -name '*.md' -o -name '*.1' -o -name '*.1.in' | sort | while read -r page; do
    sed "s|^|$page: |" "$page"
done >"$texts"
for command in train test time summary plan 'convert images' 'convert weights' mean classify extract upgrade \
    doctor device_query; do
    # shellcheck disable=SC2086 # words
    "$POSEIDON" $command --help | sed "s|^|$command --help: |"
done >>"$texts"
# literals, a file's own name before each; comments are for others
find src cuda \( -name '*.c' -o -name '*.h' -o -name '*.cu' \) | sort | while read -r source; do
    grep -o '"\([^"\\]\|\\.\)*"' "$source" | sed "s|^|$source: |"
done >>"$texts"
[ "$(wc -l <"$texts")" -gt 10000 ] || { echo "only $(wc -l <"$texts") lines of text were found"; exit 1; }

# Words that comments may have, and what the program says may not; not yet train's own options and loop.
said=$(mktemp)
grep -E '^(src|cuda)/|--help: ' "$texts" >"$said"
failures=0
grep -nE "\\banew\\b|whichever|nobody's|so long without|\\b(go|goes) on from|stood still|passing over|\\bgot on\\b|where (it|they) exists?\\b|belongs? into|all that is allowed|likeliest" "$said" && failures=1
rm -f "$said"
# comments of headers are read alone: a number has its name
grep -rnE --include=*.h '\bso many\b|\bso often\b|\bsuch an? one\b|\bditto\b|\bof those that\b|\bwhich it was\b|\bis there\b|\blies there\b' src include -i && failures=1
grep -rnE --include=*.h '\bso many\b|\bso often\b|\bsuch an? one\b|\bditto\b' cuda -i && failures=1
# Every comment is read alone: it names its thing first, continues none above it, and has its nouns. comments FILE...: each
# comment in one line, behind its file and line.
comments() {
    awk 'FNR == 1 { text = "" }
        {
            line = $0
            while (line != "") {
                if (text == "") {
                    at = index(line, "/*")
                    if (!at || line ~ /^#include/) break
                    begun = FNR; text = " "; line = substr(line, at + 2)
                }
                end = index(line, "*/")
                part = end ? substr(line, 1, end - 1) : line
                sub(/^ *\*? */, "", part)
                text = text " " part
                if (!end) break
                gsub(/  +/, " ", text)
                print FILENAME ":" begun ":" text
                text = ""; line = substr(line, end + 2)
            }
        }' "$@"
}
alone='^[^ ]*: (of|what|whether|likewise|as|where|those|who|else)\b|[:,] *$|\blikewise\b|\bso many\b|\bsuch an? one\b|\bof those\b|\banother one\b|\bthe other way round\b'
printf '/* Sums. */ int a; /* of a,\n * and b */\n#include <x/*.h>\nint b; /* So many */\n' >"$list.c"
[ "$(comments "$list.c" | grep -ciE "$alone") $(comments "$list.c" | wc -l)" = '2 3' ] || { echo 'comments are not read as they stand'; failures=1; }
rm -f "$list.c"
# shellcheck disable=SC2046 # names without blanks
comments $(find src cuda include \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' \) ! -name '*.pb-c.*') | grep -iE "$alone" && failures=1
while IFS='	' read -r pattern instead; do
    grep -E -e "$pattern" "$texts" | grep -v 'docs/REPRODUCTION.md: |' >"$list.found" || continue
    echo "'$pattern' (write: $instead):"
    head -n 5 "$list.found"
    failures=1
done <"$list"
rm -f "$list.found"
long=$(grep -e '--help: ' "$texts" | sed 's/^[^:]*: //' | awk 'length($0) > 80')
[ -z "$long" ] || { echo "wider than 80 columns: $long"; failures=1; }
exit $failures
