#!/bin/sh
# Fetches what tests/gpu/run.sh unpacks on a bare GPU machine: Debian's packages of Open MPI, HDF5, oneDNN,
# protobuf-c and Check with the libraries they load, and the generated configure script. Run it where these
# packages are installed. Everything lands in tests/gpu/packages, which git ignores.
set -eu
cd "$(dirname "$0")/../.."
# What the generated files depend on; run.sh asks for it, too.
digest() { cat configure.ac Makefile.am m4/*.m4 */Makemodule*.am */*/Makemodule*.am | sha256sum; }
if [ "${1:-}" = --digest ]; then
    digest
    exit
fi
folder=tests/gpu/packages
seeds='libopenmpi3 libopenmpi-dev openmpi-bin openmpi-common libhdf5-dev libhdf5-103-1 libdnnl-dev libdnnl2
protobuf-c-compiler libprotobuf-c-dev libprotobuf-c1 check libpmix2 libhwloc-plugins pkg-config
pkgconf pkgconf-bin libpkgconf3 libhdf5-hl-100 libaec-dev libsubunit-dev libevent-dev libpmix-dev libhwloc-dev
libibverbs-dev'

mkdir -p "$folder"
rm -f "$folder"/*.deb

# The packages that own the libraries which the seeds' programs and plug-ins load.
installed=''
for package in $seeds; do
    dpkg -s "$package" >/dev/null 2>&1 && installed="$installed $package"
done
needed=$(for package in $installed; do dpkg -L "$package"; done |
    grep -E '\.so(\.[0-9.]+)?$|/bin/[^/]+$' | while read -r file; do
        [ -f "$file" ] && ldd "$file" 2>/dev/null | sed -n 's/.*=> \(\/[^ ]*\).*/\1/p'
    done | sort -u | while read -r library; do
        dpkg -S "$(readlink -f "$library")" 2>/dev/null || dpkg -S "$library" 2>/dev/null || :
    done | sed 's/:.*//' | sort -u |
    grep -vE '^(libc6|libgcc-s1|libstdc\+\+6|gcc-.*|libcuda.*|libgomp1|.*nvidia.*)$' || :)

(cd "$folder" && apt-get download -q $(printf '%s\n' $installed $needed | sort -u))

autoreconf -fi >/dev/null 2>&1
tar -chf "$folder/generated.tar" configure aclocal.m4 config.h.in Makefile.in build-aux
digest >"$folder/generated.sum"
du -sh "$folder"
