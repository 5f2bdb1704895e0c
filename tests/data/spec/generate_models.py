#!/usr/bin/python3
"""Writes tiny binary models and states with protoc, and some that protoc would not write by hand.

    generate_models.py src/nn/spec/caffe.proto OUTPUT_FOLDER [WEIGHTS_FOLDER]

With WEIGHTS_FOLDER, which holds real .caffemodel files, writes real_weights.h as well: what protoc
reads in them.
"""
import math
import os
import re
import struct
import subprocess
import sys

proto, out = sys.argv[1], sys.argv[2]
include, name = os.path.split(proto)


def protoc(mode, message, data):
    return subprocess.run(["protoc", "-I" + include, "--%s=caffe.%s" % (mode, message), name],
                          input=data, capture_output=True, check=True).stdout


def write(path, data):
    with open(os.path.join(out, path), "wb") as f:
        f.write(data)


def varint(n):
    b = b""
    while n > 127:
        b += bytes([n & 127 | 128])
        n >>= 7
    return b + bytes([n])


def field(number, content):
    """A field of bytes, or of a varint."""
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    return varint(number << 3 | 2) + varint(len(content)) + content


V2 = """
name: "today"
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: [1, 1, 4, 4] } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" phase: TRAIN
  convolution_param { num_output: 2 kernel_size: 3 }
  blobs { shape { dim: [2, 1, 3, 3] } data: [1,2,3,4,5,6,7,8,9,-1,-2,-3,-4,-5,-6,-7,-8,-9] }
  blobs { shape { dim: 2 } data: [0.5, -0.25] diff: [9, 9] } }
layer { name: "ip" type: "InnerProduct" bottom: "conv" top: "ip"
  inner_product_param { num_output: 1 }
  blobs { shape { dim: [1, 8] } data: [1,1,1,1,1,1,1,1] } blobs { shape { dim: 1 } data: 3 } }
layer { name: "gone" type: "InnerProduct" bottom: "ip" blobs { shape { dim: 1 } data: 1 } }
"""
V1 = """
name: "of 2014"
input: "data" input_dim: [1, 1, 4, 4]
layers { name: "conv" type: CONVOLUTION bottom: "data" top: "conv" blobs_lr: 1 blobs_lr: 2
  convolution_param { num_output: 2 kernel_size: 3 }
  blobs { num: 2 channels: 1 height: 3 width: 3
    data: [1,2,3,4,5,6,7,8,9,-1,-2,-3,-4,-5,-6,-7,-8,-9] }
  blobs { num: 1 channels: 1 height: 1 width: 2 data: [0.5, -0.25] } }
layers { name: "ip" type: INNER_PRODUCT bottom: "conv" top: "ip"
  inner_product_param { num_output: 1 }
  blobs { num: 1 channels: 1 height: 1 width: 8 data: [1,1,1,1,1,1,1,1] }
  blobs { num: 1 channels: 1 height: 1 width: 1 data: 3 } }
"""
V0 = """
name: "oldest"
input: "data" input_dim: [1, 1, 4, 4]
layers { layer { name: "conv" type: "conv" num_output: 2 kernelsize: 3
  blobs { num: 2 channels: 1 height: 3 width: 3
    data: [1,2,3,4,5,6,7,8,9,-1,-2,-3,-4,-5,-6,-7,-8,-9] }
  blobs { num: 1 channels: 1 height: 1 width: 2 data: [0.5, -0.25] } } bottom: "data" top: "conv" }
layers { layer { name: "ip" type: "innerproduct" num_output: 1
  blobs { num: 1 channels: 1 height: 1 width: 8 data: [1,1,1,1,1,1,1,1] }
  blobs { num: 1 channels: 1 height: 1 width: 1 data: 3 } } bottom: "conv" top: "ip" }
"""
STATE = """
iter: 7 learned_net: "some/folder/today_iter_7.caffemodel" current_step: 2
history { shape { dim: [2, 3] } data: [1, 2, 3, 4, 5, 6] }
history { shape { dim: 2 } data: [-1, -2] }
"""

today = protoc("encode", "NetParameter", V2.encode())
write("today.caffemodel", today)
write("v1.caffemodel", protoc("encode", "NetParameter", V1.encode()))
write("v0.caffemodel", protoc("encode", "NetParameter", V0.encode()))
write("state.solverstate", protoc("encode", "SolverState", STATE.encode()))
write("mean.binaryproto", protoc("encode", "BlobProto", b"num: 1 channels: 2 height: 1 width: 1 data: [1, 2]"))

# doubles, values one by one instead of in a list, shapes likewise, fields nobody knows
doubles = field(7, field(1, varint(2))) + field(8, struct.pack("<2d", 0.1, 2.0)) + field(5, struct.pack("<f", 77))
single = field(7, field(1, 2) + field(1, 2)) + b"".join(
    varint(5 << 3 | 5) + struct.pack("<f", v) for v in (1.5, 2.5)) + field(5, struct.pack("<2f", 3.5, 4.5))
unknown = field(999, b"?" * 300) + varint(998 << 3 | 1) + b"12345678" + varint(997 << 3 | 5) + b"1234" + field(996, 5)
layer = field(1, b"odd") + unknown + field(7, doubles) + field(7, single) + field(2, b"Odd")
write("odd.caffemodel", unknown + field(1, b"odd forms") + field(100, layer) + unknown)
# a net whose input size its weights alone tell: 3 x 28 x 28; and one that lost its layers' settings
sized = """
layer { name: "d" type: "Data" top: "data" data_param { batch_size: 5 } }
layer { name: "ip" type: "InnerProduct" bottom: "data" top: "ip" inner_product_param { num_output: 1 bias_term: false }
  blobs { shape { dim: [1, 2352] } data: [%s] } }""" % ", ".join(["1"] * 2352)
write("sized.caffemodel", protoc("encode", "NetParameter", sized.encode()))
bare = b"""
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" blobs { shape { dim: [1, 1, 1, 1] } data: 1 } }"""
write("bare.caffemodel", protoc("encode", "NetParameter", bare))
# an enum's number that does not exist
write("enum.caffemodel", field(100, field(1, b"p") + field(2, b"Pooling") + field(121, field(1, 77))))

if len(sys.argv) > 3:
    folder = sys.argv[3]
    lines = ["/* Made by generate_models.py: what protoc reads in real files. */", "static const struct {",
             "    const char *file, *layer, *shape;", "    double sum, sum_of_magnitudes;", "} real_weights[] = {"]
    for file in sorted(os.listdir(folder)):
        if not file.endswith(".caffemodel"):
            continue
        with open(os.path.join(folder, file), "rb") as f:
            text = protoc("decode", "NetParameter", f.read()).decode()
        for block in re.split(r"^layers? \{$", text, flags=re.M)[1:]:
            layer_name = re.search(r'^  name: "(.*)"$', block, flags=re.M).group(1)
            for blob in re.split(r"^  blobs \{$", block, flags=re.M)[1:]:
                blob = blob[:blob.index("\n  }\n") + 1]
                values = [float(v) for v in re.findall(r"^    data: (.*)$", blob, flags=re.M)]
                shape = re.findall(r"^      dim: (.*)$", blob, flags=re.M) or [
                    (re.search(r"^    %s: (.*)$" % k, blob, flags=re.M) or [0, "0"])[1]
                    for k in ("num", "channels", "height", "width")]
                lines.append('    {"%s", "%s", "%s (%d)", %r, %r},' % (
                    file, layer_name, " ".join(shape), len(values), math.fsum(values),
                    math.fsum(abs(v) for v in values)))
    lines.append("};")
    write("real_weights.h", ("\n".join(lines) + "\n").encode())
