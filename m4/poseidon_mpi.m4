# POSEIDON_MPI
# An MPI of standard 3 or later, proved by compiling and linking. CC is normally the wrapper; a
# plain compiler is helped by Open MPI's wrapper in PATH (it fits the mpirun in PATH), else by
# pkg-config.
# Sets MPI_CFLAGS, MPI_LIBS, MPIRUN and poseidon_mpi_version.
AC_DEFUN([POSEIDON_MPI],
[AC_ARG_VAR([MPI_CFLAGS], [flags to compile MPI programs, where CC is no wrapper])
AC_ARG_VAR([MPI_LIBS], [libraries to link MPI programs, where CC is no wrapper])
AC_ARG_VAR([MPIRUN], [command that starts MPI programs in tests (default: mpirun)])
AC_MSG_CHECKING([whether $CC builds MPI programs])
POSEIDON_MPI_TRY
AC_MSG_RESULT([$poseidon_linked])
AS_IF([test "$poseidon_linked" = no && test -z "$MPI_CFLAGS$MPI_LIBS"],
[for poseidon_module in 'mpicc -showme' ompi-c ompi mpich mpi-c; do
    AC_MSG_CHECKING([for MPI through $poseidon_module])
    AS_CASE([$poseidon_module],
    [mpicc*], [MPI_CFLAGS=`mpicc -showme:compile 2>/dev/null`
MPI_LIBS=`mpicc -showme:link 2>/dev/null`],
    [MPI_CFLAGS=`${PKG_CONFIG:-false} --cflags $poseidon_module 2>/dev/null`
MPI_LIBS=`${PKG_CONFIG:-false} --libs $poseidon_module 2>/dev/null`])
    poseidon_linked=no
    AS_IF([test -n "$MPI_LIBS"], [POSEIDON_MPI_TRY])
    AC_MSG_RESULT([$poseidon_linked])
    AS_IF([test "$poseidon_linked" = yes], [break])
done])
AS_IF([test "$poseidon_linked" = no],
      [POSEIDON_MISSING([MPI], ['$CC' cannot compile and link an MPI program], [libopenmpi-dev],
                        [openmpi], [name its compiler with MPICC=])])

POSEIDON_HEADER_VERSION([poseidon_mpi_standard], [$MPI_CFLAGS], [@%:@include <mpi.h>],
                        [MPI_VERSION.MPI_SUBVERSION])
AC_MSG_CHECKING([for the MPI standard])
AC_MSG_RESULT([$poseidon_mpi_standard])
AS_CASE([$poseidon_mpi_standard],
        [[[012]].*],
        [POSEIDON_MISSING([MPI], [standard 3.0 or later is needed and this is $poseidon_mpi_standard],
                          [libopenmpi-dev], [openmpi])])
POSEIDON_MPI_LIBRARY_VERSION
AS_IF([test -z "$MPIRUN"], [AC_CHECK_PROGS([MPIRUN], [mpirun mpiexec srun], [mpirun])])])

# MPI_Ibcast and MPI_Iallreduce are of MPI 3, yet an older header is to be named as such: the
# probe uses what every MPI has.
AC_DEFUN([POSEIDON_MPI_TRY],
[POSEIDON_TRY_LINK([$MPI_CFLAGS], [$MPI_LIBS], [@%:@include <mpi.h>],
                   [int rank;
MPI_Init(0, 0);
MPI_Comm_rank(MPI_COMM_WORLD, &rank);
MPI_Finalize();])])

# The library's own words where it can be run, its header's otherwise.
AC_DEFUN([POSEIDON_MPI_LIBRARY_VERSION],
[AC_MSG_CHECKING([for the MPI library])
poseidon_mpi_version=
poseidon_save_CPPFLAGS=$CPPFLAGS
poseidon_save_LIBS=$LIBS
CPPFLAGS="$MPI_CFLAGS $CPPFLAGS"
LIBS="$MPI_LIBS $LIBS"
AC_RUN_IFELSE([AC_LANG_PROGRAM([@%:@include <mpi.h>
@%:@include <stdio.h>],
[char text[[MPI_MAX_LIBRARY_VERSION_STRING]];
int length = 0;
FILE *out = fopen("conftest.out", "w");
if (!out || MPI_Get_library_version(text, &length))
    return 1;
return fprintf(out, "%s\n", text) < 0 || fclose(out);])],
[poseidon_mpi_version=`sed -n '1{s/,.*//;p;}' conftest.out 2>/dev/null`], [:], [:])
CPPFLAGS=$poseidon_save_CPPFLAGS
LIBS=$poseidon_save_LIBS
rm -f conftest.out
AS_IF([test -z "$poseidon_mpi_version"],
[POSEIDON_HEADER_VERSION([poseidon_mpi_version], [$MPI_CFLAGS], [@%:@include <mpi.h>
@%:@if defined OPEN_MPI
@%:@define POSEIDON_MPI_NAME Open_MPI_ OMPI_MAJOR_VERSION.OMPI_MINOR_VERSION.OMPI_RELEASE_VERSION
@%:@elif defined MPICH_VERSION
@%:@define POSEIDON_MPI_NAME MPICH_ MPICH_VERSION
@%:@else
@%:@define POSEIDON_MPI_NAME unknown
@%:@endif], [POSEIDON_MPI_NAME])])
AC_MSG_RESULT([$poseidon_mpi_version])])
