#!/bin/sh
# docs/messages.md: each message is in the sources, each page has its heading, and the page is what scripts/make_messages.py
# makes of both.
set -u
cd "${abs_top_srcdir:?}" || exit 99
python3 -c '' 2>/dev/null || { echo 'SKIP: no Python'; exit 77; }
made=$(mktemp)
trap 'rm -f "$made"' EXIT
python3 -B scripts/make_messages.py >"$made" || exit 1
[ "$(grep -c '^- `' "$made")" -ge 40 ] || { echo "fewer messages than there should be: $(cat "$made")"; exit 1; }
cmp -s "$made" docs/messages.md || { diff "$made" docs/messages.md; echo 'mend with: scripts/make_messages.py >docs/messages.md'; exit 1; }
# a message that the sources lack, and a heading that a page lacks, are noticed
copy=$(mktemp -d)
trap 'rm -rf "$made" "$copy"' EXIT
mkdir "$copy/scripts" && ln -s "$PWD/src" "$PWD/cuda" "$PWD/docs" "$copy" || exit 99
for change in 's/^is stale: taking the lock over$/is stale, and nobody says so/' 's/^failures.md#snapshots$/failures.md#snap/'; do
    sed "$change" scripts/make_messages.py >"$copy/scripts/make_messages.py"
    ! cmp -s scripts/make_messages.py "$copy/scripts/make_messages.py" || { echo "$change changes nothing"; exit 1; }
    ! python3 -B "$copy/scripts/make_messages.py" >/dev/null 2>&1 || { echo "not noticed: $change"; exit 1; }
done
