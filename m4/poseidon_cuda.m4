# POSEIDON_CUDA
# --with-cuda[=DIR] and --with-cudnn=DIR. Without the option the toolkit is used where nvcc, the run time
# and the headers of cuDNN and cuBLASLt all work; with it, anything missing is an error. The run time is
# linked in; cuDNN and cuBLASLt are loaded by the program when it needs them.
# Sets NVCC, NVCC_ARCH, CUDA_CPPFLAGS, CUDA_LIBS, CUDA_LIBRARY_FOLDERS, HAVE_CUDA (conditional and macro)
# and poseidon_cuda.
AC_DEFUN([POSEIDON_CUDA],
[AC_ARG_WITH([cuda],
    [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@],
                    [use the CUDA toolkit (in DIR); default: if nvcc, cuDNN and cuBLAS are there])],
    [], [with_cuda=auto])
AC_ARG_WITH([cudnn],
    [AS_HELP_STRING([--with-cudnn=DIR], [cuDNN where it is installed apart from the toolkit])],
    [], [with_cudnn=])
AC_ARG_VAR([NVCC], [CUDA compiler])
AC_ARG_VAR([CUDA_CPPFLAGS], [flags to compile with CUDA, cuBLAS and cuDNN])
AC_ARG_VAR([CUDA_LIBS], [libraries to link the CUDA run time])
AC_ARG_VAR([CUDA_HOST_CXX], [C++ compiler for the engine's tests without a GPU (default: g++)])
: ${CUDA_HOST_CXX=g++}
AC_ARG_VAR([NVCC_ARCH], [nvcc's -gencode options (default: A100, H100 and H200, others through PTX)])
have_cuda=no
poseidon_cuda=no
AS_IF([test "$with_cuda" != no],
[POSEIDON_CUDA_FIND
AS_IF([test -n "$poseidon_cuda_lacks" && test "$with_cuda" != auto],
      [POSEIDON_MISSING([CUDA was asked for], [$poseidon_cuda_lacks],
                        [nvidia-cuda-toolkit and nvidia-cudnn (non-free)], [cuda and cudnn],
                        [name their folders with --with-cuda=DIR --with-cudnn=DIR])])
AS_IF([test -n "$poseidon_cuda_lacks"], [poseidon_cuda="no ($poseidon_cuda_lacks)"],
      [have_cuda=yes
POSEIDON_HEADER_VERSION([poseidon_cuda_number], [$CUDA_CPPFLAGS],
                        [@%:@include <cuda_runtime_api.h>], [CUDART_VERSION])
POSEIDON_HEADER_VERSION([poseidon_cudnn_version], [$CUDA_CPPFLAGS], [@%:@include <cudnn.h>],
                        [CUDNN_MAJOR.CUDNN_MINOR.CUDNN_PATCHLEVEL])
poseidon_cuda_version=`expr $poseidon_cuda_number / 1000`.`expr $poseidon_cuda_number % 1000 / 10`
poseidon_cuda="$poseidon_cuda_version with cuDNN $poseidon_cudnn_version, $NVCC"
AC_DEFINE([HAVE_CUDA], [1], [Define to 1 if the CUDA engine is part of this build.])])],
[poseidon_cuda='off (--without-cuda)'])
AM_CONDITIONAL([HAVE_CUDA], [test "$have_cuda" = yes])])

# Looks in DIR, or in the usual places, and stops at the first that works as a whole.
# poseidon_cuda_lacks: empty, or what the last place lacked.
AC_DEFUN([POSEIDON_CUDA_FIND],
[AS_CASE([$with_cuda],
[yes|auto], [poseidon_cuda_dirs="$CUDA_HOME $CUDA_PATH $CUDA_ROOT"
poseidon_try=`command -v nvcc 2>/dev/null`
AS_IF([test -n "$poseidon_try"],
      [poseidon_try=`readlink -f "$poseidon_try" 2>/dev/null`
poseidon_try=`AS_DIRNAME(["$poseidon_try"])`
poseidon_cuda_dirs="$poseidon_cuda_dirs `AS_DIRNAME(["$poseidon_try"])`"])
poseidon_cuda_dirs="$poseidon_cuda_dirs /usr/local/cuda /usr"],
[poseidon_cuda_dirs=$with_cuda])
poseidon_given_nvcc=$NVCC
poseidon_given_cppflags=$CUDA_CPPFLAGS
poseidon_given_libs=$CUDA_LIBS
: ${NVCC_ARCH='-gencode=arch=compute_80,code=sm_80 -gencode=arch=compute_90,code=sm_90 -gencode=arch=compute_75,code=compute_75'}
poseidon_cuda_lacks='nvcc was not found'
for poseidon_dir in $poseidon_cuda_dirs; do
    NVCC=${poseidon_given_nvcc:-$poseidon_dir/bin/nvcc}
    test -x "$NVCC" || continue
    POSEIDON_CUDA_FLAGS
    AC_MSG_CHECKING([for CUDA in $poseidon_dir])
    POSEIDON_CUDA_TRY
    AC_MSG_RESULT([m4_normalize([${poseidon_cuda_lacks:-yes}])])
    test -z "$poseidon_cuda_lacks" && break
done
AS_IF([test -n "$poseidon_cuda_lacks"], [NVCC= CUDA_CPPFLAGS= CUDA_LIBS=])])

AC_DEFUN([POSEIDON_CUDA_FLAGS],
[CUDA_CPPFLAGS=
CUDA_LIBS=
CUDA_LIBRARY_FOLDERS=
for poseidon_prefix in $with_cudnn "$poseidon_dir"; do
    # The compiler searches /usr itself, and does worse when told to.
    test "$poseidon_prefix" = /usr && continue
    CUDA_CPPFLAGS="$CUDA_CPPFLAGS -I$poseidon_prefix/include"
    for poseidon_lib in lib64 lib targets/x86_64-linux/lib targets/sbsa-linux/lib; do
        AS_IF([test -d "$poseidon_prefix/$poseidon_lib"],
              [CUDA_LIBS="$CUDA_LIBS -L$poseidon_prefix/$poseidon_lib"
CUDA_LIBRARY_FOLDERS="$CUDA_LIBRARY_FOLDERS:$poseidon_prefix/$poseidon_lib"; break])
    done
done
CUDA_CPPFLAGS=${poseidon_given_cppflags:-$CUDA_CPPFLAGS}
poseidon_cuda_folders=$CUDA_LIBS
CUDA_LIBS=${poseidon_given_libs:-"$CUDA_LIBS -lcudart_static -lrt -ldl -lpthread"}
AC_SUBST([CUDA_LIBRARY_FOLDERS])])

AC_DEFUN([POSEIDON_CUDA_TRY],
[poseidon_cuda_lacks=
cat >conftest.cu <<'_POSEIDON_EOF'
__global__ void twice(float *x) { x[[threadIdx.x]] *= 2; }
_POSEIDON_EOF
AS_IF([$NVCC -c -o conftest.cuo conftest.cu >&AS_MESSAGE_LOG_FD 2>&1], [],
      [poseidon_cuda_lacks="$NVCC does not compile"])
rm -f conftest.cu conftest.cuo
AS_IF([test -z "$poseidon_cuda_lacks"],
[POSEIDON_CUDA_TRY_RUN_TIME
# Some packages carry the shared run time only.
AS_IF([test -n "$poseidon_cuda_lacks" && test -z "$poseidon_given_libs"],
      [CUDA_LIBS="$poseidon_cuda_folders -lcudart -ldl"
poseidon_cuda_lacks=
POSEIDON_CUDA_TRY_RUN_TIME])])
AS_IF([test -z "$poseidon_cuda_lacks"],
[POSEIDON_TRY_LINK([$CUDA_CPPFLAGS], [], [@%:@include <cublasLt.h>], [return CUBLAS_STATUS_SUCCESS;],
                   [], [poseidon_cuda_lacks='cublasLt.h does not compile'])])
AS_IF([test -z "$poseidon_cuda_lacks"],
[POSEIDON_TRY_LINK([$CUDA_CPPFLAGS], [], [@%:@include <cudnn.h>
@%:@if CUDNN_VERSION < 90800
@%:@error cuDNN 9.8 or later is needed
@%:@endif],
                   [return CUDNN_STATUS_SUCCESS;],
                   [], [poseidon_cuda_lacks='cudnn.h of version 9.8 or later does not compile'])])])

AC_DEFUN([POSEIDON_CUDA_TRY_RUN_TIME],
[POSEIDON_TRY_LINK([$CUDA_CPPFLAGS], [$CUDA_LIBS], [@%:@include <cuda_runtime_api.h>],
                   [return cudaSetDevice(0);],
                   [], [poseidon_cuda_lacks='the CUDA run time does not link'])])
