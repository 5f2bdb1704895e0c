#!/bin/sh
# build_info.sh SRCDIR COMPILER FLAGS: the header that says what a build was made of. A release has no
# repository around it, and so no commit; its sources have a digest all the same.
commit=$(git -C "$1" describe --always --dirty --abbrev=12 2>/dev/null)
quote() {
    printf '%s' "$1" | sed 's/[\\"]/\\&/g'
}
digest=sha256sum
command -v $digest >/dev/null || digest=cksum
# what is built from them in turn (*.pb-c.*, build_values.h) is no source
sources=$(cd "$1" && find src cuda -type f \( -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.proto' \) \
    ! -name '*.pb-c.*' ! -name 'build_values.h' | LC_ALL=C sort | xargs $digest | $digest | cut -c 1-12)
cat <<END
#define BUILD_COMMIT   "$(quote "${commit:-unknown (built without a repository)}")"
#define BUILD_SOURCES  "$(quote "${sources% *}")"
#define BUILD_COMPILER "$(quote "$($2 --version 2>/dev/null | head -n 1)")"
#define BUILD_FLAGS    "$(quote "$3")"
END
