# The libraries. Every macro sets NAME_CFLAGS and NAME_LIBS and a version for the summary.

# POSEIDON_HDF5: --with-hdf5=DIR, else pkg-config, else the compiler's own paths.
# A parallel build of HDF5 serves as well: only its serial calls are used.
AC_DEFUN([POSEIDON_HDF5],
[AC_ARG_WITH([hdf5],
    [AS_HELP_STRING([--with-hdf5=DIR], [HDF5 installed under DIR (default: ask pkg-config)])],
    [], [with_hdf5=yes])
m4_define([poseidon_hdf5_body], [hid_t file = H5Fcreate("x", H5F_ACC_EXCL, H5P_DEFAULT, H5P_DEFAULT);
return H5Fclose(file) < 0;])
poseidon_hdf5_where=
AS_CASE([$with_hdf5],
[no], [AC_MSG_ERROR([HDF5 cannot be left out: it holds the data and the snapshots.])],
[yes],
[AS_IF([test -n "$HDF5_LIBS"], [poseidon_hdf5_where='HDF5_CFLAGS and HDF5_LIBS'],
[PKG_CHECK_MODULES([HDF5], [hdf5], [poseidon_hdf5_where='pkg-config hdf5'],
[PKG_CHECK_MODULES([HDF5], [hdf5-serial], [poseidon_hdf5_where='pkg-config hdf5-serial'],
[HDF5_CFLAGS=
HDF5_LIBS=-lhdf5
poseidon_hdf5_where='the compiler'"'"'s paths'])])])],
[POSEIDON_PREFIX([HDF5], [$with_hdf5], [hdf5.h], [HDF5_CFLAGS], [HDF5_LIBS])
HDF5_LIBS="$HDF5_LIBS -lhdf5"
poseidon_hdf5_where=$with_hdf5])
AC_MSG_CHECKING([for HDF5 ($poseidon_hdf5_where)])
POSEIDON_TRY_LINK([$HDF5_CFLAGS $MPI_CFLAGS], [$HDF5_LIBS $MPI_LIBS], [@%:@include <hdf5.h>],
                  [poseidon_hdf5_body])
AC_MSG_RESULT([$poseidon_linked])
AS_IF([test "$poseidon_linked" = no],
      [POSEIDON_MISSING([HDF5], [no C library could be linked from $poseidon_hdf5_where],
                        [libhdf5-dev], [hdf5], [name its folder with --with-hdf5=DIR])])
POSEIDON_HEADER_VERSION([poseidon_hdf5_version], [$HDF5_CFLAGS $MPI_CFLAGS], [@%:@include <hdf5.h>],
                        [H5_VERS_MAJOR.H5_VERS_MINOR.H5_VERS_RELEASE])
POSEIDON_HEADER_VERSION([poseidon_hdf5_deflate], [$HDF5_CFLAGS $MPI_CFLAGS], [@%:@include <hdf5.h>
@%:@ifdef H5_HAVE_FILTER_DEFLATE
@%:@define POSEIDON_DEFLATE yes
@%:@else
@%:@define POSEIDON_DEFLATE no
@%:@endif], [POSEIDON_DEFLATE])
AS_IF([test "$poseidon_hdf5_deflate" = no],
      [AC_MSG_WARN([this HDF5 was built without zlib: it cannot read compressed data sets, such as those in data/])])])

# POSEIDON_DNNL: oneDNN's C interface, 2.x and 3.x alike; the sources look at dnnl_version.h.
AC_DEFUN([POSEIDON_DNNL],
[AC_ARG_WITH([dnnl],
    [AS_HELP_STRING([--with-dnnl=DIR], [oneDNN installed under DIR])], [], [with_dnnl=yes])
AC_ARG_VAR([DNNL_CFLAGS], [flags to compile with oneDNN])
AC_ARG_VAR([DNNL_LIBS], [libraries to link oneDNN])
AS_CASE([$with_dnnl],
[no], [AC_MSG_ERROR([oneDNN cannot be left out: it computes the layers.])],
[yes], [poseidon_dnnl_where='the compiler'"'"'s paths'
AS_IF([test -z "$DNNL_LIBS"], [DNNL_LIBS=-ldnnl])],
[POSEIDON_PREFIX([oneDNN], [$with_dnnl], [oneapi/dnnl/dnnl.h dnnl.h],
                [DNNL_CFLAGS], [DNNL_LIBS])
DNNL_LIBS="$DNNL_LIBS -ldnnl"
poseidon_dnnl_where=$with_dnnl])
m4_define([poseidon_dnnl_body], [const dnnl_version_t *v = dnnl_version();
dnnl_engine_t e;
return v->major < 2 || dnnl_engine_create(&e, dnnl_cpu, 0) != dnnl_success;])
poseidon_linked=no
for poseidon_header in oneapi/dnnl/dnnl.h dnnl.h; do
    AC_MSG_CHECKING([for oneDNN, $poseidon_header ($poseidon_dnnl_where)])
    AS_CASE([$poseidon_header],
    [oneapi/*], [POSEIDON_TRY_LINK([$DNNL_CFLAGS], [$DNNL_LIBS], [@%:@include <oneapi/dnnl/dnnl.h>],
                                   [poseidon_dnnl_body])],
    [POSEIDON_TRY_LINK([$DNNL_CFLAGS], [$DNNL_LIBS], [@%:@include <dnnl.h>], [poseidon_dnnl_body])])
    AC_MSG_RESULT([$poseidon_linked])
    AS_IF([test "$poseidon_linked" = yes], [break])
done
AS_IF([test "$poseidon_linked" = no],
      [POSEIDON_MISSING([oneDNN], [no C library could be linked from $poseidon_dnnl_where],
                        [libdnnl-dev], [onednn], [name its folder with --with-dnnl=DIR])])
POSEIDON_HEADER_VERSION([poseidon_dnnl_version], [$DNNL_CFLAGS], [@%:@include <$poseidon_header>],
                        [DNNL_VERSION_MAJOR.DNNL_VERSION_MINOR.DNNL_VERSION_PATCH])
AS_CASE([$poseidon_dnnl_version],
        [[[01]].*],
        [POSEIDON_MISSING([oneDNN], [version 2.0 or later is needed and this is $poseidon_dnnl_version],
                          [libdnnl-dev], [onednn])])])

# POSEIDON_PROTOBUF_C: the library and its compiler.
AC_DEFUN([POSEIDON_PROTOBUF_C],
[PKG_CHECK_MODULES([PROTOBUF_C], [libprotobuf-c], [],
[PROTOBUF_C_CFLAGS=
PROTOBUF_C_LIBS=-lprotobuf-c])
AC_MSG_CHECKING([for protobuf-c])
POSEIDON_TRY_LINK([$PROTOBUF_C_CFLAGS], [$PROTOBUF_C_LIBS],
                  [@%:@include <protobuf-c/protobuf-c.h>],
                  [return protobuf_c_version_number() < 1000000;])
AC_MSG_RESULT([$poseidon_linked])
AS_IF([test "$poseidon_linked" = no],
      [POSEIDON_MISSING([protobuf-c], [its library could not be linked], [libprotobuf-c-dev],
                        [protobuf-c], [set PROTOBUF_C_CFLAGS and PROTOBUF_C_LIBS])])
POSEIDON_HEADER_VERSION([poseidon_protobuf_c_version], [$PROTOBUF_C_CFLAGS],
                        [@%:@include <protobuf-c/protobuf-c.h>], [PROTOBUF_C_VERSION])
AC_ARG_VAR([PROTOC_C], [protobuf-c's compiler, protoc-c])
AC_PATH_PROGS([PROTOC_C], [protoc-c], [])
AS_IF([test -z "$PROTOC_C"],
      [POSEIDON_MISSING([protobuf-c], [its compiler protoc-c is not in PATH],
                        [protobuf-c-compiler], [protobuf-c], [name it with PROTOC_C=])])])

# POSEIDON_SYSTEM: threads and the mathematical library, wherever this system keeps them.
AC_DEFUN([POSEIDON_SYSTEM],
[PTHREAD_CFLAGS=
SYSTEM_LIBS=
for poseidon_try in '' -pthread; do
    AC_MSG_CHECKING([for POSIX threads ${poseidon_try:-without any flag}])
    POSEIDON_TRY_LINK([$poseidon_try], [$poseidon_try], [@%:@include <pthread.h>
static void *run(void *argument)
{
    return argument;
}], [pthread_t thread;
return pthread_create(&thread, 0, run, 0) || pthread_join(thread, 0);])
    AC_MSG_RESULT([$poseidon_linked])
    AS_IF([test "$poseidon_linked" = yes], [PTHREAD_CFLAGS=$poseidon_try; break])
done
AS_IF([test "$poseidon_linked" = no],
      [POSEIDON_MISSING([POSIX threads], [no program with threads could be linked], [libc6-dev],
                        [gcc])])
AC_MSG_CHECKING([for the mathematical functions])
for poseidon_try in '' -lm; do
    POSEIDON_TRY_LINK([], [$poseidon_try], [@%:@include <math.h>
double volatile x = 2;], [return pow(x, x) > log(x);])
    AS_IF([test "$poseidon_linked" = yes], [break])
done
AS_IF([test "$poseidon_linked" = no],
      [POSEIDON_MISSING([The mathematical library], [it could not be linked], [libc6-dev], [gcc])])
AC_MSG_RESULT([${poseidon_try:-in the C library}])
SYSTEM_LIBS="$poseidon_try $PTHREAD_CFLAGS"
AC_MSG_CHECKING([for dlopen])
for poseidon_try in '' -ldl; do
    POSEIDON_TRY_LINK([], [$poseidon_try], [@%:@include <dlfcn.h>], [return dlopen("", 0) != 0;])
    AS_IF([test "$poseidon_linked" = yes], [break])
done
AS_IF([test "$poseidon_linked" = no],
      [POSEIDON_MISSING([dlopen], [it could not be linked], [libc6-dev], [gcc])])
AC_MSG_RESULT([${poseidon_try:-in the C library}])
SYSTEM_LIBS="$SYSTEM_LIBS $poseidon_try"
poseidon_saved_libs=$LIBS
LIBS="$SYSTEM_LIBS $LIBS"
AC_CHECK_FUNCS([sem_clockwait])
LIBS=$poseidon_saved_libs
AC_SUBST([PTHREAD_CFLAGS])
AC_SUBST([SYSTEM_LIBS])])

# POSEIDON_CHECK: the unit test framework; without it there are no tests, and the rest goes on.
AC_DEFUN([POSEIDON_CHECK],
[PKG_CHECK_MODULES([CHECK], [check >= 0.10], [:],
[CHECK_CFLAGS=
CHECK_LIBS='-lcheck -lsubunit -lrt -lm'])
AC_MSG_CHECKING([for Check])
POSEIDON_TRY_LINK([$CHECK_CFLAGS], [$CHECK_LIBS], [@%:@include <check.h>],
                  [srunner_free(srunner_create(suite_create("x")));],
                  [have_check=yes], [have_check=no])
AC_MSG_RESULT([$have_check])
AS_IF([test "$have_check" = yes],
      [POSEIDON_HEADER_VERSION([poseidon_check_version], [$CHECK_CFLAGS], [@%:@include <check.h>],
                   [CHECK_MAJOR_VERSION.CHECK_MINOR_VERSION.CHECK_MICRO_VERSION])
poseidon_check_version=`AS_ECHO(["$poseidon_check_version"]) | tr -d '()'`])
AM_CONDITIONAL([HAVE_CHECK], [test "$have_check" = yes])])

# POSEIDON_PYTHON: a Python with h5py and numpy, as an independent judge in some tests. Those
# tests skip where PYTHON_H5PY is empty. The system's own is tried too: h5py often lives there
# while an environment module's Python comes first in PATH.
AC_DEFUN([POSEIDON_PYTHON],
[AC_ARG_VAR([PYTHON_H5PY], [Python 3 with h5py and numpy, for some tests])
AC_MSG_CHECKING([for a Python with h5py and numpy])
AS_IF([test -z "$PYTHON_H5PY"],
[for poseidon_try in python3 /usr/bin/python3; do
    AS_IF([$poseidon_try -c 'import h5py, numpy' >/dev/null 2>&1],
          [PYTHON_H5PY=$poseidon_try; break])
done])
AC_MSG_RESULT([${PYTHON_H5PY:-no}])])
