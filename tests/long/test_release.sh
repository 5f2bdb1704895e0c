#!/bin/sh
# A release and its packages: make dist in a build without Check, unpacked in a clean folder, built and installed by the steps
# of packaging/apptainer.def, and trained with; make distcheck in a build with Check; the options of
# packaging/spack/package.py are configure's; both name the packages that scripts/setup.sh does.
set -u
. "$abs_top_srcdir/tests/commands/common.sh"
make=${MAKE:-make}
unset MAKEFLAGS MFLAGS MAKELEVEL
packaging=$abs_top_srcdir/packaging
version=$("$POSEIDON" --version | sed -n 's/^poseidon //p')

# make dist where Check is not to be found
mkdir dist
(cd dist && env CHECK_CFLAGS=-I/nowhere CHECK_LIBS=-lnowhere "$abs_top_srcdir/configure" --without-cuda >configure.log 2>&1 &&
    "$make" -s dist >dist.log 2>&1) || fail "make dist without Check: $(tail -n 5 dist/*.log)"
"$make" -s -C dist check 2>&1 | grep -q 'No tests were built: Check is missing' || fail 'make check without Check does not say so'
cp "dist/poseidon-$version.tar.gz" . || exit 1
tar tzf "poseidon-$version.tar.gz" >files
for file in tests/commands/test_pasted.sh tests/plan/test_plan.c packaging/apptainer.def packaging/spack/package.py docs/from-caffe.md; do
    grep -q "^poseidon-$version/$file$" files || fail "the release lacks $file"
done

# the container's steps, without its packages
sed -n '/^%post/,/^%runscript/p' "$packaging/apptainer.def" | sed '1d; $d' |
    sed "s|^ *source=/opt prefix=/usr/local|source=$folder prefix=$folder/usr|; /apt-get clean/d; s/nproc/echo 2/" |
    sed '/apt-get update/d; /apt-get install/,/[^\\]$/d' >steps
grep -q '^source=' steps && ! grep -q apt-get steps || fail "the steps of apptainer.def: $(cat steps)"
sh -eu steps >steps.log 2>&1 || fail "the steps of apptainer.def: $(tail -n 5 steps.log)"
program=$folder/usr/bin/poseidon
run --version
has "$out" "poseidon $version*commit *unknown*" 'the release'
cd "$folder/usr/share/poseidon" || exit 1
works '*Optimization Done*' train --solver=models/lenet/solver.prototxt --max-iter=2 --batch=8 --snapshot-prefix="$folder/s"
cd "$folder" || exit 1

# where Check is: what is packed builds out of a read-only tree without git, passes tests that look at the whole of it,
# is installed, and leaves nothing when it is uninstalled and cleaned (make distcheck)
mkdir whole
tests='tests/test_names.sh tests/test_man.sh tests/test_layers_order.sh tests/commands/test_install.sh tests/commands/test_options.sh tests/library/test_alone.sh'
(cd whole && "$abs_top_srcdir/configure" --without-cuda >configure.log 2>&1 &&
    "$make" -s -j2 distcheck DISTCHECK_CONFIGURE_FLAGS=--without-cuda TESTS="$tests" >distcheck.log 2>&1) ||
    fail "make distcheck: $(grep -E '^(FAIL|ERROR)' whole/distcheck.log; tail -n 5 whole/*.log)"
same 'tests that passed in distcheck' "$(echo "$tests" | wc -w)" "$(grep -c '^PASS: ' whole/distcheck.log)"

# packages: what setup.sh asks for, but for what makes configure
list() { # NAME OF A LIST: Debian's column
    sed -n "/^$1='/,/'/p" "$abs_top_srcdir/scripts/setup.sh" | sed "1d; s/'//" | cut -d' ' -f1
}
{ list setup_required; list setup_formats; } | grep -v -x -e autoconf -e automake | sort >wanted
sed -n '/apt-get install/,/[^\\]$/p' "$packaging/apptainer.def" | sed 1d | tr -d '\\' | tr -s ' ' '\n' | grep . | sort >named
cmp -s wanted named || fail "apptainer.def and setup.sh differ in packages: $(diff wanted named)"

# Spack's recipe, with a stand-in for Spack
if [ -n "${POSEIDON_PYTHON:-}" ]; then
    mkdir -p spack spack_repo/builtin/build_systems
    touch spack/__init__.py
    echo 'class AutotoolsPackage: pass' >spack_repo/builtin/build_systems/autotools.py
    cat >spack/package.py <<'EOF'
def ignore(*args, **keywords):
    pass
license = ignore
version = ignore
variants, dependencies = {}, []
def variant(name, default=None, description=""):
    variants[name] = default
def depends_on(spec, when="", type=None):
    dependencies.append(spec.split("@")[0].split("~")[0].split("+")[0])
    assert not when or when[1:] in variants, when
EOF
    cat >arguments.py <<'EOF'
import importlib.util, sys
spec = importlib.util.spec_from_file_location("recipe", sys.argv[1])
recipe = importlib.util.module_from_spec(spec)
spec.loader.exec_module(recipe)
import spack.package
class Part:
    mpicc = "mpicc"
    def __init__(self, name): self.prefix = sys.argv[2] + "/" + name
class Spec:
    def __getitem__(self, name): # as Spack's: what is asked for must be depended on by that name
        assert name in spack.package.dependencies, name
        return Part(name)
    def __contains__(self, text): return spack.package.variants[text[1:]]
package = recipe.Poseidon()
package.spec = Spec()
print("\n".join(package.configure_args()))
open("dependencies", "w").write("\n".join(sorted(set(spack.package.dependencies))))
EOF
    PYTHONPATH=$folder PYTHONDONTWRITEBYTECODE=1 "$POSEIDON_PYTHON" arguments.py "$packaging/spack/package.py" "$folder/prefix" >arguments ||
        fail 'package.py cannot be read'
    "$abs_top_srcdir/configure" --help >help
    sed -n 's/^--with\(out\)\{0,1\}-\([a-z0-9]*\).*/\2/p' arguments | while read -r name; do
        grep -q -F -e " --with-$name=" -e " --with-$name[" help || echo "$name"
    done >unknown
    [ ! -s unknown ] || fail "package.py gives configure options that it has not: $(cat unknown)"
    for name in openmpi hdf5 onednn protobuf-c lmdb leveldb libjpeg-turbo libpng libwebp check; do
        grep -qx "$name" dependencies || fail "package.py does not depend on $name"
    done
    # headers and libraries where a prefix has them
    mkdir -p prefix/hdf5 prefix/onednn
    ln -s "$(pkg-config --cflags-only-I hdf5 | sed 's/^-I//; s/ .*//')" prefix/hdf5/include
    ln -s "$(pkg-config --libs-only-L hdf5 | sed 's/^-L//; s/ .*//')" prefix/hdf5/lib
    ln -s /usr/include prefix/onednn/include
    ln -s /usr/lib/"$(gcc -print-multiarch)" prefix/onednn/lib
    mkdir configured
    # shellcheck disable=SC2046 # an argument a line, without blanks
    (cd configured && "$abs_top_srcdir/configure" $(cat "$folder/arguments") >configure.log 2>&1) ||
        fail "configure by package.py: $(tail -n 5 configured/configure.log)"
else
    echo 'left out: the recipe of Spack (no python3)'
fi
finish
