#!/bin/sh
# build_info.sh SRCDIR COMPILER FLAGS: the header that says what a build was made of. A release has no
# repository around it, and so no commit.
commit=$(git -C "$1" describe --always --dirty --abbrev=12 2>/dev/null)
quote() {
    printf '%s' "$1" | sed 's/[\\"]/\\&/g'
}
cat <<END
#define BUILD_COMMIT   "$(quote "${commit:-unknown (built without a repository)}")"
#define BUILD_COMPILER "$(quote "$($2 --version 2>/dev/null | head -n 1)")"
#define BUILD_FLAGS    "$(quote "$3")"
END
