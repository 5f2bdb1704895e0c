#!/bin/sh
# The package of python/: pip installs it without a network as docs/library.md says, it finds libposeidon and names where,
# and what is wrong with a library is one message that says what to do.
. "${abs_top_srcdir:?}/tests/common.sh"
library=${abs_top_builddir:?}/libposeidon.so.1
[ -f "$library" ] || { echo 'skipped: no libposeidon.so (configure --enable-library)'; exit 77; }
! sanitized || { echo 'skipped: a sanitizer would have to come before Python'; exit 77; }
python=${POSEIDON_PYTHON:-python3}
cp -R "$abs_top_srcdir/python" python
chmod -R u+w python
if "$python" -m venv --system-site-packages venv >venv.log 2>&1 && venv/bin/python -c '
import setuptools, pip
if int(setuptools.__version__.split(".")[0]) < 71: import wheel' 2>>venv.log; then
    pip=yes
else
    echo "left out: pip install ./python, for $python lacks venv, pip, setuptools or wheel: $(tail -n 1 venv.log)"
    mkdir -p venv/bin
    ln -sf "$(command -v "$python")" venv/bin/python
    PYTHONPATH=$folder/python
    export PYTHONPATH
    pip=no
fi
PATH=$folder/venv/bin:$PATH
HOME=$folder/home
unset LD_LIBRARY_PATH PKG_CONFIG_PATH POSEIDON_LIBRARY
export PATH HOME
version=$("$POSEIDON" --version | sed -n 's/^poseidon //p')

# said STATUS WHAT [NAME=VALUE...]: of `python -m poseidon`, in the file said; an error is one line
said() {
    expected=$1 what=$2
    shift 2
    (cd home && env "$@" python -m poseidon) >said 2>errors
    same "$what: status" "$expected" $?
    [ "$expected" = 0 ] || [ "$(wc -l <errors):$(wc -l <said)" = 1:0 ] || fail "$what: expected one line of error: $(cat said errors)"
    cat errors >>said
}
has() { # WHAT TEXT...: in the file said
    what=$1
    shift
    for text; do
        grep -q -F -e "$text" said || fail "$what: expected '$text' in: $(cat said)"
    done
}
mkdir -p home

# ---- pip, by the page's own line ----
if [ $pip = yes ]; then
    sed -n 's/^\(pip install \.\/python\)$/\1/p' "$abs_top_srcdir/docs/library.md" >install.sh
    same 'lines of docs/library.md that install the package' 1 "$(wc -l <install.sh)"
    PIP_NO_INDEX=1 PIP_NO_BUILD_ISOLATION=0 PIP_NO_DEPS=1 sh -e install.sh >pip.log 2>&1 || fail "pip install: $(cat pip.log)"
    said 0 'after pip install' POSEIDON_LIBRARY="$library"
    has 'after pip install' "poseidon $version of $folder/venv/lib"
    python -m pip show libposeidon 2>/dev/null | grep -q "^Version: $version$" || fail "pip show: $(python -m pip show libposeidon 2>&1)"
    for file in "$abs_top_srcdir"/python/poseidon/*.py; do
        cmp "$file" "$folder"/venv/lib/python*/site-packages/poseidon/"${file##*/}" || fail "$file is not installed"
    done
fi

# ---- where the library is found ----
said 0 'by POSEIDON_LIBRARY' POSEIDON_LIBRARY="$library"
has 'by POSEIDON_LIBRARY' "libposeidon $version of $library, found by POSEIDON_LIBRARY"
grep -q '^MPI of /.*/lib[a-z_]*\.so[.0-9]*: [A-Z]' said || fail "which MPI: $(cat said)"
mkdir -p apart/lib/pkgconfig home/.local/lib place/bin place/lib
cp "$library" apart/lib
cp "$library" place/lib
sed "s|^prefix=.*|prefix=$PWD/apart|; s|^exec_prefix=.*|exec_prefix=$PWD/apart|; s|^libdir=.*|libdir=$PWD/apart/lib|" "$abs_top_builddir/poseidon.pc" \
    >apart/lib/pkgconfig/poseidon.pc
if command -v pkg-config >/dev/null; then
    said 0 'by pkg-config' PKG_CONFIG_PATH="$PWD/apart/lib/pkgconfig"
    has 'by pkg-config' "of $PWD/apart/lib/libposeidon.so.1, found by pkg-config"
fi
if ! (cd home && PKG_CONFIG_PATH='' python -m poseidon) >/dev/null 2>&1; then # no other is installed on this machine
    said 0 'by the loader' LD_LIBRARY_PATH="$PWD/apart/lib"
    has 'by the loader' "of $PWD/apart/lib/libposeidon.so.1, found by the dynamic loader"
    printf '#!/bin/sh\n' >place/bin/poseidon
    chmod +x place/bin/poseidon
    said 0 'beside the program' PATH="$PWD/place/bin:$PATH"
    has 'beside the program' "of $PWD/place/lib/libposeidon.so.1, found by the usual folders"
    cp "$library" home/.local/lib
    said 0 'in ~/.local'
    has 'in ~/.local' "of $HOME/.local/lib/libposeidon.so.1, found by the usual folders"
    rm home/.local/lib/libposeidon.so.1
    said 1 'no library'
    has 'no library' 'no libposeidon.so.1 found: POSEIDON_LIBRARY is not set' "$HOME/.local/lib/libposeidon.so.1" 'make install' \
        'or export POSEIDON_LIBRARY=/where/libposeidon.so.1'
fi

# ---- libraries that do not do ----
said 1 'a path to nothing' POSEIDON_LIBRARY=/none.so
has 'a path to nothing' '/none.so, found by POSEIDON_LIBRARY: cannot open shared object file: No such file' 'expected the library'"'"'s path: export POSEIDON_LIBRARY='
said 1 'a file that is no library' POSEIDON_LIBRARY="$folder/said"
has 'a file that is no library' "$folder/said, found by POSEIDON_LIBRARY: " 'expected the library'"'"'s path'
# make_library NAME [FLAG...]: of the C on standard input, without the wrapper's MPI
make_library() {
    name=$1
    shift
    cc -shared -fPIC -x c - -x none -o "$name" "$@" >build.log 2>&1 || { cat build.log; fail "$name is not built"; }
}
if command -v cc >/dev/null; then
    echo 'int x;' | make_library other.so
    said 1 'another library' POSEIDON_LIBRARY="$folder/other.so"
    has 'another library' "$folder/other.so, found by POSEIDON_LIBRARY: expected libposeidon, found a library without poseidon_version"
    for other in 0.9.0 2.0.0; do
        echo "const char *poseidon_version(void) { return \"$other\"; }" | make_library old.so
        said 1 "version $other" POSEIDON_LIBRARY="$folder/old.so"
        has "version $other" ": version $other; expected $version or a later ${version%%.*}.x" 'pip install ./python'
    done
    echo "const char *poseidon_version(void) { return \"$version\"; }" | make_library old.so
    said 1 'a library that lacks a function' POSEIDON_LIBRARY="$folder/old.so"
    has 'a library that lacks a function' "version $version without poseidon_add: install both from one source"
    # built for an MPI that has gone, and beside one that another module has brought
    echo 'int MPI_Init(int *a, void *b) { return *a; }' | make_library libmpi.so.99 -Wl,-soname,libmpi.so.99
    echo 'int MPI_Init(int *, void *); int poseidon_x(void) { return MPI_Init(0, 0); }' | make_library strange.so ./libmpi.so.99
    mkdir brought
    mv libmpi.so.99 brought
    said 1 'an MPI that is not here' POSEIDON_LIBRARY="$folder/strange.so"
    has 'an MPI that is not here' 'expected the MPI library that it was built for: make libmpi.so.99 known (module load'
    (cd home && POSEIDON_LIBRARY=$library python -c "
import ctypes
ctypes.CDLL('$folder/brought/libmpi.so.99')
import poseidon._library
poseidon._library.library()") >said 2>&1 && fail 'two MPI libraries in one process'
    has 'two MPI libraries' 'OSError: ' "this process has two MPI libraries, " "$folder/brought/libmpi.so.99" ': build poseidon with the MPI of the other modules'
fi
finish
