# shellcheck shell=sh disable=SC2154
# Read by demo.sh and check.sh with ".", from the source folder: finds what is missing on this
# machine, installs it where that is allowed, and builds out of tree. The caller's configure options
# are in setup_arguments.

setup_say() {
    printf '%s\n' "$*"
}

setup_fail() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# What is needed: Debian's package, Spack's package.
setup_required='
gcc gcc
libc6-dev gcc
make gmake
autoconf autoconf
automake automake
pkg-config pkgconf
libopenmpi-dev openmpi
openmpi-bin openmpi
libhdf5-dev hdf5
libdnnl-dev onednn
protobuf-c-compiler protobuf-c
libprotobuf-c-dev protobuf-c'

# Formats of input that are left out where their library is not there.
setup_formats='
liblmdb-dev lmdb
libleveldb-dev leveldb
libjpeg-dev libjpeg-turbo
libpng-dev libpng
libwebp-dev libwebp'

# What the tests need besides; all but the first are judges, or what few people build with: their tests
# skip without them.
setup_testing='
check check'
setup_oracles='
protobuf-compiler protobuf
python3-numpy py-numpy
python3-h5py py-h5py
python3-lmdb py-lmdb
hdf5-tools hdf5
dataset-fashion-mnist -
cppcheck cppcheck
python3-matplotlib py-matplotlib
graphviz graphviz
shellcheck -
clang-format-14 -'

# setup_header HEADER [PKG-CONFIG-MODULE...]: can the compiler include it?
setup_header() {
    setup_file=$1
    shift
    setup_cc=${MPICC:-${CC:-mpicc}}
    command -v "${setup_cc%% *}" >/dev/null 2>&1 || setup_cc=cc
    setup_flags=
    for setup_module in "$@"; do
        setup_flags=$(pkg-config --cflags "$setup_module" 2>/dev/null) && break
    done
    # Word splitting is meant: these are lists of flags.
    # shellcheck disable=SC2086
    printf '#include <%s>\n' "$setup_file" |
        $setup_cc ${CPPFLAGS:-} $setup_flags -x c -E - >/dev/null 2>&1
}

# setup_has PACKAGE: is what this Debian package brings there, wherever it comes from?
setup_has() {
    case $1 in
    gcc) command -v "${CC:-gcc}" || command -v cc ;;
    libc6-dev)
        printf '#include <stdio.h>\n' | ${CC:-cc} -E - || printf '#include <stdio.h>\n' | gcc -E -
        ;;
    make) command -v make ;;
    autoconf) command -v autoreconf ;;
    automake) command -v automake && command -v aclocal ;;
    pkg-config) command -v pkg-config ;;
    libopenmpi-dev) setup_header mpi.h ;;
    openmpi-bin) command -v "${MPIRUN:-mpirun}" || command -v srun ;;
    libhdf5-dev)
        case " $setup_arguments" in *' --with-hdf5='*) return 0 ;; esac
        setup_header hdf5.h hdf5 hdf5-serial
        ;;
    libdnnl-dev)
        case " $setup_arguments" in *' --with-dnnl='*) return 0 ;; esac
        setup_header oneapi/dnnl/dnnl.h || setup_header dnnl.h
        ;;
    protobuf-c-compiler) command -v "${PROTOC_C:-protoc-c}" ;;
    libprotobuf-c-dev) setup_header protobuf-c/protobuf-c.h libprotobuf-c ;;
    liblmdb-dev) setup_header lmdb.h lmdb ;;
    libleveldb-dev) setup_header leveldb/c.h ;;
    libjpeg-dev) setup_header jpeglib.h libjpeg ;;
    libpng-dev) setup_header png.h libpng ;;
    libwebp-dev) setup_header webp/decode.h libwebp ;;
    graphviz) command -v dot ;;
    check) setup_header check.h check ;;
    protobuf-compiler) command -v protoc ;;
    python3-numpy) setup_python numpy ;;
    python3-h5py) setup_python h5py ;;
    python3-lmdb) setup_python lmdb ;;
    hdf5-tools) command -v h5dump ;;
    dataset-fashion-mnist) test -f /usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz ;;
    cppcheck) command -v cppcheck ;;
    python3-matplotlib) setup_python matplotlib ;;
    shellcheck) command -v shellcheck ;;
    clang-format-14) command -v clang-format-14 ;;
    *) return 1 ;;
    esac >/dev/null 2>&1
}

setup_python() {
    python3 -c "import $1" || /usr/bin/python3 -c "import $1"
}

# setup_missing LIST: the Debian names of what is not there.
setup_missing() {
    printf '%s\n' "$1" | while read -r setup_debian _; do
        [ -z "$setup_debian" ] || setup_has "$setup_debian" || printf '%s ' "$setup_debian"
    done | sed 's/ $//'
}

# setup_spack NAMES: Spack's names for these Debian names, each once.
setup_spack() {
    printf '%s\n' "$setup_required" "$setup_testing" "$setup_oracles" "$setup_formats" |
        awk -v wanted=" $* " 'index(wanted, " " $1 " ") && $2 != "-" && !seen[$2]++ {
            printf "%s%s", n++ ? " " : "", $2
        }'
}

# setup_apt ARGUMENTS: apt-get as root, quiet; what it said is in $setup_log when it fails.
setup_apt() {
    if [ "$(id -u)" -eq 0 ]; then
        env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 "$@"
    else
        sudo -n env DEBIAN_FRONTEND=noninteractive apt-get -q -y -o Acquire::Retries=3 "$@"
    fi >>"$setup_log" 2>&1 </dev/null
}

setup_can_install() {
    command -v apt-get >/dev/null 2>&1 || return 1
    [ "$(id -u)" -eq 0 ] || sudo -n true >/dev/null 2>&1
}

# setup_install NAMES: three attempts, for networks and for locks that others hold.
setup_install() {
    for setup_attempt in 1 2 3; do
        setup_apt update || true
        # Word splitting is meant: a list of packages.
        # shellcheck disable=SC2086
        setup_apt install --no-install-recommends $1 && return 0
        [ "$setup_attempt" -eq 3 ] || sleep $((setup_attempt * 5))
    done
    return 1
}

# setup_dependencies REQUIRED [OPTIONAL]: installs what is missing, or says what to install and
# ends. What is optional, formats of input among it, is only tried.
setup_dependencies() {
    setup_need=$(setup_missing "$1")
    setup_want=$(setup_missing "${2:-}$setup_formats")
    if [ -z "$setup_need$setup_want" ]; then
        setup_say 'Everything needed is installed.'
        return 0
    fi
    if setup_can_install; then
        setup_log=$(mktemp)
        setup_say "Installing: $setup_need $setup_want"
        if ! setup_install "$setup_need $setup_want"; then
            [ -z "$setup_need" ] || setup_install "$setup_need" || true
            for setup_package in $setup_want; do
                setup_apt install --no-install-recommends "$setup_package" || true
            done
        fi
        hash -r
        setup_need=$(setup_missing "$1")
        setup_want=$(setup_missing "${2:-}$setup_formats")
        [ -z "$setup_need" ] || tail -n 20 "$setup_log" >&2
        rm -f "$setup_log"
    fi
    [ -z "$setup_want" ] ||
        setup_say "Not there, so what needs them is left out or skipped: $setup_want"
    [ -n "$setup_need" ] || return 0
    cat >&2 <<END

These are missing and could not be installed from here. Install them, then run this again:

    Debian, Ubuntu   apt-get install $setup_need
    Spack            spack install $(setup_spack "$setup_need")

Libraries installed elsewhere: give configure's options, as in
./${0##*/} --with-hdf5=DIR --with-dnnl=DIR MPICC=DIR/bin/mpicc
END
    exit 1
}

# setup_build FOLDER ARGUMENTS: autoreconf and configure where needed, then make.
setup_build() {
    setup_folder=$1
    shift
    mkdir -p "$setup_folder"
    if [ ! -x configure ] || [ ! -f Makefile.in ] || [ ! -f config.h.in ] ||
        [ ! -f build-aux/install-sh ]; then
        setup_say 'autoreconf'
        autoreconf -fi >"$setup_folder/autoreconf.log" 2>&1 || {
            cat "$setup_folder/autoreconf.log" >&2
            setup_fail 'autoreconf failed'
        }
    fi
    setup_stamp=$setup_folder/configured-with
    if [ ! -f "$setup_folder/Makefile" ] || [ "$(cat "$setup_stamp" 2>/dev/null)" != "$*" ]; then
        setup_say "configure $*"
        rm -f "$setup_stamp"
        if ! (cd "$setup_folder" && ../configure "$@") >"$setup_folder/configure.log" 2>&1; then
            tail -n 5 "$setup_folder/configure.log" >&2
            setup_fail "configure failed; all it said is in $setup_folder/configure.log"
        fi
        sed -n '/^  poseidon /,$p' "$setup_folder/configure.log"
        printf '%s\n' "$*" >"$setup_stamp"
    fi
    setup_say 'make'
    make -s -C "$setup_folder" -j"$(getconf _NPROCESSORS_ONLN)" ||
        setup_fail "the build failed in $setup_folder"
}
