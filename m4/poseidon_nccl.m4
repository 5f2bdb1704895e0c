# POSEIDON_NCCL
# --with-nccl[=DIR]: the GPUs of one node add up gradients by NCCL. Off unless asked for; then a missing header is an
# error. The library is loaded by the program when it needs it. After POSEIDON_CUDA.
# The header alone, asked for or not, lets the tests build that part over an NCCL of their own.
# Adds to CUDA_CPPFLAGS and CUDA_LIBRARY_FOLDERS; sets HAVE_NCCL (conditional and macro: use it), HAVE_NCCL_H (ditto:
# it can be compiled) and poseidon_nccl.
AC_DEFUN([POSEIDON_NCCL],
[AC_ARG_WITH([nccl],
    [AS_HELP_STRING([--with-nccl@<:@=DIR@:>@],
                    [let the GPUs of one node add up gradients by NCCL (in DIR); default: no])],
    [], [with_nccl=no])
poseidon_nccl_lacks='nccl.h of version 2.18 or later was not found'
poseidon_nccl_flags=
poseidon_nccl_given=yes
AS_CASE([$with_nccl], [yes|no], [],
[poseidon_nccl_flags="-I$with_nccl/include"
poseidon_nccl_lacks="there is no nccl.h of version 2.18 or later in $with_nccl/include"
CUDA_LIBRARY_FOLDERS="$with_nccl/lib:$with_nccl/lib64:$CUDA_LIBRARY_FOLDERS"
# the system's own would be taken in its place unnoticed
AS_IF([test ! -f "$with_nccl/include/nccl.h"], [poseidon_nccl_given=no])])
AC_MSG_CHECKING([for NCCL])
AS_IF([test "$have_cuda" = yes],
[AS_IF([test "$poseidon_nccl_given" = yes], [POSEIDON_TRY_LINK([$poseidon_nccl_flags $CUDA_CPPFLAGS], [], [@%:@include <nccl.h>
@%:@if NCCL_VERSION_CODE < NCCL_VERSION(2, 18, 0)
@%:@error NCCL 2.18 or later is needed
@%:@endif],
                   [return ncclSuccess;],
                   [poseidon_nccl_lacks=
CUDA_CPPFLAGS="$poseidon_nccl_flags $CUDA_CPPFLAGS"
POSEIDON_HEADER_VERSION([poseidon_nccl_version], [$CUDA_CPPFLAGS], [@%:@include <nccl.h>],
                        [NCCL_MAJOR.NCCL_MINOR.NCCL_PATCH])
AC_DEFINE([HAVE_NCCL_H], [1], [Define to 1 if there is a usable <nccl.h>.])])])],
[poseidon_nccl_lacks='no CUDA engine to use it'])
AC_MSG_RESULT([${poseidon_nccl_lacks:-$poseidon_nccl_version}])
AS_IF([test "$with_nccl" = no], [poseidon_nccl='off (--with-nccl)'],
      [test "$have_cuda" = no],
      [AC_MSG_ERROR([NCCL was asked for, and the CUDA engine that would use it is not part of this build: $poseidon_cuda])],
      [test -n "$poseidon_nccl_lacks"],
      [POSEIDON_MISSING([NCCL was asked for], [$poseidon_nccl_lacks], [libnccl-dev (non-free)], [nccl],
                        [name its folder with --with-nccl=DIR])],
      [poseidon_nccl=$poseidon_nccl_version
AC_DEFINE([HAVE_NCCL], [1], [Define to 1 if the CUDA engine is to use NCCL.])])
AM_CONDITIONAL([HAVE_NCCL_H], [test -z "$poseidon_nccl_lacks"])])
