#!/bin/sh
# tests/library/test_torch.sh with whole nets.
TORCH_NETS='alexnet vgg16_64 resnet50' TORCH_SECONDS=3600
export TORCH_NETS TORCH_SECONDS
exec sh "${abs_top_srcdir:?}/tests/library/test_torch.sh"
