# Language, warnings, sanitizers, coverage. All flags go to the Makefile's AM_CFLAGS, never to
# CFLAGS: that belongs to the user, and the probes must not see a -Werror.

# C11 or later; an Autoconf before 2.70 does not ask for it by itself.
AC_DEFUN([POSEIDON_C11],
[m4_define([poseidon_c11_source], [AC_LANG_SOURCE([
@%:@if __STDC_VERSION__ < 201112L
@%:@error older than C11
@%:@endif
_Thread_local int x;
_Static_assert(sizeof(char) == 1, "char");])])
AC_MSG_CHECKING([whether $CC compiles C11])
AC_COMPILE_IFELSE([poseidon_c11_source], [AC_MSG_RESULT([yes])],
[CC="$CC -std=gnu11"
AC_COMPILE_IFELSE([poseidon_c11_source], [AC_MSG_RESULT([with -std=gnu11])],
[AC_MSG_RESULT([no])
POSEIDON_MISSING([C11], ['$CC' does not compile it], [gcc], [gcc], [name another compiler with CC=])])])])

# A -Werror in the user's CFLAGS would break Autoconf's own probes: it waits for the build.
AC_DEFUN([POSEIDON_STASH_WERROR],
[WERROR_CFLAGS=
AS_CASE([" $CFLAGS "], [*' -Werror '*],
[WERROR_CFLAGS=-Werror
CFLAGS=`AS_ECHO([" $CFLAGS "]) | sed 's/ -Werror / /g; s/^ *//; s/ *$//'`])])

AC_DEFUN([POSEIDON_WARNINGS],
[AC_ARG_ENABLE([werror],
    [AS_HELP_STRING([--enable-werror], [make every compiler warning an error])],
    [], [enable_werror=no])
AS_IF([test "$enable_werror" = yes], [WERROR_CFLAGS=-Werror])
WARN_CFLAGS=
poseidon_save_CFLAGS=$CFLAGS
for poseidon_try in -Wall -Wextra -Wshadow -Wno-unknown-pragmas; do
    # Without OpenMP its pragmas are unknown, and may be.
    AS_CASE([$poseidon_try:$OPENMP_CFLAGS], [-Wno-unknown-pragmas:?*], [continue])
    CFLAGS="$poseidon_save_CFLAGS $WARN_CFLAGS $poseidon_try"
    AC_MSG_CHECKING([whether $CC accepts $poseidon_try])
    AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])],
                      [AC_MSG_RESULT([yes]); WARN_CFLAGS="$WARN_CFLAGS $poseidon_try"],
                      [AC_MSG_RESULT([no])])
done
CFLAGS=$poseidon_save_CFLAGS
WARN_CFLAGS="$WARN_CFLAGS $WERROR_CFLAGS"
AC_SUBST([WARN_CFLAGS])])

# --enable-sanitizers[=LIST]: address,undefined without a list; thread stands alone.
AC_DEFUN([POSEIDON_SANITIZERS],
[AC_ARG_ENABLE([sanitizers],
    [AS_HELP_STRING([--enable-sanitizers@<:@=LIST@:>@],
                    [build with sanitizers (address,undefined; or thread)])],
    [], [enable_sanitizers=no])
SANITIZE_CFLAGS=
AS_IF([test "$enable_sanitizers" = yes], [enable_sanitizers=address,undefined])
AS_IF([test "$enable_sanitizers" != no],
[SANITIZE_CFLAGS="-fsanitize=$enable_sanitizers -fno-omit-frame-pointer"
AS_CASE([$enable_sanitizers], [*undefined*],
        [SANITIZE_CFLAGS="$SANITIZE_CFLAGS -fno-sanitize-recover=undefined"])
AC_MSG_CHECKING([whether $CC links with $SANITIZE_CFLAGS])
poseidon_save_CFLAGS=$CFLAGS
CFLAGS="$CFLAGS $SANITIZE_CFLAGS"
AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [poseidon_linked=yes], [poseidon_linked=no])
CFLAGS=$poseidon_save_CFLAGS
AC_MSG_RESULT([$poseidon_linked])
AS_IF([test "$poseidon_linked" = no],
      [POSEIDON_MISSING([--enable-sanitizers=$enable_sanitizers], [the compiler cannot link it],
                        [libgcc-12-dev], [gcc])])])
AC_SUBST([SANITIZE_CFLAGS])
AM_CONDITIONAL([SANITIZERS], [test "$enable_sanitizers" != no])
AM_CONDITIONAL([ADDRESS_SANITIZER],
    [AS_CASE([$enable_sanitizers], [*address*], [:], [false])])
AM_CONDITIONAL([THREAD_SANITIZER], [test "$enable_sanitizers" = thread])])

AC_DEFUN([POSEIDON_COVERAGE],
[AC_ARG_ENABLE([coverage],
    [AS_HELP_STRING([--enable-coverage], [count executed lines, for "make coverage"])],
    [], [enable_coverage=no])
COVERAGE_CFLAGS=
AS_IF([test "$enable_coverage" = yes], [COVERAGE_CFLAGS='--coverage -O0'])
AC_ARG_VAR([GCOV], [coverage reader that fits the compiler])
AC_CHECK_PROGS([GCOV], [gcov], [gcov])
AC_SUBST([COVERAGE_CFLAGS])
AM_CONDITIONAL([COVERAGE], [test "$enable_coverage" = yes])])

# POSEIDON_KERNELS: what src/nn/engine/kernel.h needs.
# MATH_CFLAGS: nobody looks at errno after a square root, and with it a loop of roots takes no
# vectors. A pragma does not do: GCC decides that before it reads the file. Nor does anybody unmask
# exceptions; while a comparison might raise one, GCC makes a branch of "x > 0 ? dy : 0" for AVX2, and
# a ReLU's signs are what no branch predictor knows. No value changes by either.
# HAVE_TARGET_CLONES: one function can be compiled for several instruction sets, of which the loader
# takes one. A program is run where programs can be: the loader's choice happens before a thread
# sanitizer is ready, and ends in a crash.
AC_DEFUN([POSEIDON_KERNELS],
[MATH_CFLAGS="-fno-math-errno -fno-trapping-math"
AC_MSG_CHECKING([whether $CC accepts $MATH_CFLAGS])
poseidon_save_CFLAGS=$CFLAGS
CFLAGS="$CFLAGS $MATH_CFLAGS"
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [])], [AC_MSG_RESULT([yes])],
                  [AC_MSG_RESULT([no]); MATH_CFLAGS=])
CFLAGS=$poseidon_save_CFLAGS
AC_SUBST([MATH_CFLAGS])
m4_define([poseidon_clones_source], [AC_LANG_PROGRAM([
@%:@define KERNEL __attribute__((target_clones("avx512f", "avx2", "default")))
KERNEL static void twice(float *x, int n) { for (int i = 0; i < n; i++) x@<:@i@:>@ += x@<:@i@:>@; }
struct table { void (*function)(float *, int); };
const struct table table = {twice};],
[float x@<:@3@:>@ = {1, 2, 3};
table.function(x, 3);
return x@<:@0@:>@ + x@<:@1@:>@ + x@<:@2@:>@ == 12 ? 0 : 1;])])
AC_MSG_CHECKING([whether $CC compiles a function for several instruction sets])
poseidon_save_CFLAGS=$CFLAGS
CFLAGS="$CFLAGS $SANITIZE_CFLAGS -Werror"
AC_RUN_IFELSE([poseidon_clones_source],
    [poseidon_clones=yes], [poseidon_clones=no],
    [AC_LINK_IFELSE([poseidon_clones_source], [poseidon_clones=yes], [poseidon_clones=no])])
CFLAGS=$poseidon_save_CFLAGS
AC_MSG_RESULT([$poseidon_clones])
AS_IF([test "$poseidon_clones" = yes],
      [AC_DEFINE([HAVE_TARGET_CLONES], [1],
                 [A function can be compiled for several instruction sets.])])])

# POSEIDON_HARDENING: what makes a mistake in reading a stranger's file harder to use: a program that is loaded anywhere
# (PIE), tables that nobody can write to after the start (full RELRO), guarded stack frames, and libc's functions with
# checks of bounds. Each where compiler and linker have it; "make hardening-check" looks at what came out. Sanitizers
# check more, and not together with these.
AC_DEFUN([POSEIDON_HARDENING],
[AC_ARG_ENABLE([hardening],
    [AS_HELP_STRING([--disable-hardening], [build without PIE, RELRO, stack protector and FORTIFY])],
    [], [enable_hardening=yes])
HARDENING_CFLAGS=
HARDENING_LDFLAGS=
AS_IF([test "$enable_sanitizers" != no || test "$enable_coverage" != no], [enable_hardening=no])
AS_IF([test "$enable_hardening" = yes],
[poseidon_save_CFLAGS=$CFLAGS
poseidon_save_LDFLAGS=$LDFLAGS
m4_define([poseidon_hardening_source], [AC_LANG_PROGRAM([@%:@include <string.h>],
    [char text@<:@16@:>@; strcpy(text, "x"); return text@<:@1@:>@;])])
for poseidon_try in -fstack-protector-strong '-U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2' -fPIE; do
    # -Werror: FORTIFY without optimization is a warning
    CFLAGS="$poseidon_save_CFLAGS $HARDENING_CFLAGS $poseidon_try -Werror"
    AC_MSG_CHECKING([whether $CC accepts $poseidon_try])
    AC_COMPILE_IFELSE([poseidon_hardening_source],
                      [AC_MSG_RESULT([yes]); HARDENING_CFLAGS="$HARDENING_CFLAGS $poseidon_try"],
                      [AC_MSG_RESULT([no]); enable_hardening=partly])
done
CFLAGS="$poseidon_save_CFLAGS $HARDENING_CFLAGS"
for poseidon_try in -pie -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack; do
    # objects of nvcc are not built for PIE where its compiler does not do that by itself
    AS_IF([test "$poseidon_try" = -pie && test -n "$NVCC"], [continue])
    LDFLAGS="$poseidon_save_LDFLAGS $HARDENING_LDFLAGS $poseidon_try"
    AC_MSG_CHECKING([whether $CC links with $poseidon_try])
    AC_LINK_IFELSE([poseidon_hardening_source],
                   [AC_MSG_RESULT([yes]); HARDENING_LDFLAGS="$HARDENING_LDFLAGS $poseidon_try"],
                   [AC_MSG_RESULT([no]); enable_hardening=partly])
done
CFLAGS=$poseidon_save_CFLAGS
LDFLAGS=$poseidon_save_LDFLAGS])
AC_SUBST([HARDENING_CFLAGS])
AC_SUBST([HARDENING_LDFLAGS])
AM_CONDITIONAL([HARDENING], [test "$enable_hardening" = yes])])

# POSEIDON_LIBRARY: whether libposeidon.so is built. LIBRARY_CFLAGS are those of all objects in it, which the program has,
# too; LIBRARY_LDFLAGS make a shared library of them, and see that it lacks nothing (sanitizers bring what is theirs with
# the program).
AC_DEFUN([POSEIDON_LIBRARY],
[AC_ARG_ENABLE([library],
    [AS_HELP_STRING([--disable-library], [do not build libposeidon.so (default: where shared libraries can be made)])],
    [], [enable_library=auto])
LIBRARY_CFLAGS='-fPIC -fvisibility=hidden'
LIBRARY_LDFLAGS='-shared -Wl,-z,relro -Wl,-z,now'
AS_IF([test "$enable_sanitizers" = no], [LIBRARY_LDFLAGS="$LIBRARY_LDFLAGS -Wl,-z,defs"])
AS_IF([test "$enable_library" != no],
[AC_MSG_CHECKING([whether $CC links a shared library])
poseidon_save_CFLAGS=$CFLAGS
poseidon_save_LDFLAGS=$LDFLAGS
echo '{ global: main; local: *; };' >conftest.map
CFLAGS="$CFLAGS $SANITIZE_CFLAGS $LIBRARY_CFLAGS"
LDFLAGS="$LDFLAGS $LIBRARY_LDFLAGS -Wl,-soname,conftest.so.0 -Wl,--version-script=conftest.map -Wl,--whole-archive -Wl,--no-whole-archive"
AC_LINK_IFELSE([AC_LANG_PROGRAM([], [])], [poseidon_linked=yes], [poseidon_linked=no])
CFLAGS=$poseidon_save_CFLAGS
LDFLAGS=$poseidon_save_LDFLAGS
rm -f conftest.map
AC_MSG_RESULT([$poseidon_linked])
AS_IF([test "$enable_library:$poseidon_linked" = yes:no],
      [AC_MSG_ERROR([--enable-library: '$CC' cannot link a shared library with $LIBRARY_LDFLAGS])])
enable_library=$poseidon_linked])
AS_IF([test "$enable_library" = no], [LIBRARY_CFLAGS=])
AC_SUBST([LIBRARY_CFLAGS])
AC_SUBST([LIBRARY_LDFLAGS])
AM_CONDITIONAL([LIBRARY], [test "$enable_library" = yes])])
