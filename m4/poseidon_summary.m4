# POSEIDON_SUMMARY: what was found, and how the tests will be launched.
AC_DEFUN([POSEIDON_SUMMARY],
[AS_IF([test "$have_check" = yes],
       [poseidon_tests="make check; MPI tests: tests/mpirun.sh N PROGRAM, by way of $MPIRUN"],
       [poseidon_tests="not built: Check is missing (Debian: check, Spack: check)"
poseidon_check_version=no])
poseidon_compiler=`$CC --version 2>/dev/null | head -n 1`
AS_IF([test "$poseidon_clones" = yes],
      [poseidon_kernels='for AVX-512, AVX2 and the baseline, chosen at start'],
      [poseidon_kernels='for the baseline of the compiler flags'])
poseidon_flags=`AS_ECHO(["$CFLAGS $OPENMP_CFLAGS $SANITIZE_CFLAGS $COVERAGE_CFLAGS"]) | sed 's/  */ /g; s/ $//'`
AS_IF([test "$silent" != yes], [cat <<_POSEIDON_EOF

  $PACKAGE_STRING
  ----------------------------------------------------------------------
  compiler      $CC: $poseidon_compiler
  flags         $poseidon_flags
  warnings     $WARN_CFLAGS
  hardening     $enable_hardening:$HARDENING_CFLAGS$HARDENING_LDFLAGS
  kernels       $poseidon_kernels
  MPI           $poseidon_mpi_version (MPI $poseidon_mpi_standard)
  HDF5          $poseidon_hdf5_version, from $poseidon_hdf5_where
  oneDNN        $poseidon_dnnl_version, from $poseidon_dnnl_where
  protobuf-c    $poseidon_protobuf_c_version, $PROTOC_C
  LMDB          $poseidon_lmdb_found
  LevelDB       $poseidon_leveldb_found
  JPEG          $poseidon_jpeg_found
  PNG           $poseidon_png_found
  WebP          $poseidon_webp_found
  OpenMP        ${OPENMP_CFLAGS:-no}
  libposeidon   $enable_library
  CUDA          $poseidon_cuda
  NCCL          $poseidon_nccl
  Check         $poseidon_check_version
  tests         $poseidon_tests
  test oracles  h5py: ${PYTHON_H5PY:-no, its tests will be skipped}
  install to    $prefix
  ----------------------------------------------------------------------

_POSEIDON_EOF
])])
