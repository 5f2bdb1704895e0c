#!/bin/sh
# One rank of 64, 256 and 1,024 that train ResNet-50 and VGG-16: what it keeps and sends stays within bounds.
set -u
exec "${POSEIDON_MPIRUN:?}" 1 "${abs_top_builddir:?}/tests/sync/test_scale" "${abs_top_srcdir:?}/models"
