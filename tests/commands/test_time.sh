#!/bin/sh
# poseidon time: what it says of a layer follows from its time, its operations and bytes, and from what the
# program measured of the machine; the floor of the whole is the sum of the layers'.
set -u
. "${abs_top_srcdir:?}/tests/commands/common.sh"

cat >net.prototxt <<'EOF'
name: "n"
layer { name: "in" type: "Input" top: "x" input_param { shape { dim: 8 dim: 16 dim: 20 dim: 20 } } }
layer { name: "c" type: "Convolution" bottom: "x" top: "c"
        convolution_param { num_output: 32 kernel_size: 3 pad: 1 weight_filler { type: "xavier" } } }
layer { name: "bn" type: "BatchNorm" bottom: "c" top: "b" }
layer { name: "scale" type: "Scale" bottom: "b" top: "b" scale_param { bias_term: true } }
layer { name: "ip" type: "InnerProduct" bottom: "b" top: "ip" inner_product_param { num_output: 10 } }
layer { name: "label" type: "Input" top: "y" input_param { shape { dim: 8 } } }
layer { name: "loss" type: "SoftmaxWithLoss" bottom: "ip" bottom: "y" top: "loss" }
EOF

works '*forward: *GFLOP/s, * % of the peak; *; bound by [am]*, * times the floor)*' time --model=net.prototxt --iterations=2
has "$err" '*Measured here: products * GFLOP/s, memory * GB/s. The floor, * adds up to * ms; Forward-Backward takes * times the floor.*' 'time'
has "$err" "*Memory of blobs: * MiB in one arena (* MiB without sharing), most of it at *ward of '*'*" 'time'
has "$err" '*scale*does the work of: bn.*' 'time'

# What is under its floor is said to be: in cache, or by fewer products.
impossible=$(printf '%s' "$err" | grep -E '(10[1-9]|1[1-9][0-9]|[2-9][0-9][0-9]) % of the peak|, 0\.[0-9]+ times the floor')
[ -z "$impossible" ] || fail "faster than possible: $impossible"

works '' time --model=net.prototxt --iterations=2 --json
printf '%s' "$out" >time.json
python=$(command -v python3) || { echo 'skipped: the figures (no python3)'; finish; }
"$python" - <<'EOF' || fail 'the figures do not agree'
import json, sys
t = json.load(open("time.json"))
peak, bandwidth = t["peak_gflops_per_second"] * 1e9, t["bandwidth_gbytes_per_second"] * 1e9
floor, bad = 0, []

def near(what, a, b):
    if abs(a - b) > 1e-4 * max(abs(a), abs(b)):
        bad.append("%s: %r is not %r" % (what, a, b))

for layer in t["layers"]:
    for way in "forward", "backward":
        p, what = layer[way], layer["name"] + " " + way
        near(what, p["ms"], layer[way + "_ms"])
        near(what + " floor", p["floor_ms"], 1e3 * max(p["flops"] / peak, p["bytes"] / bandwidth))
        floor += p["floor_ms"]
        if p["floor_ms"] == 0:
            continue
        near(what + " rate", p["gflops_per_second"], p["flops"] / p["ms"] * 1e-6)
        near(what + " share", p["share_of_peak"], p["gflops_per_second"] * 1e9 / peak)
        near(what + " times", p["times_floor"], p["ms"] / p["floor_ms"])
        if (p["bound_by"] == "arithmetic") != (p["flops"] / peak > p["bytes"] / bandwidth):
            bad.append(what + " is bound by " + p["bound_by"])
near("floor", t["floor_ms"], floor)
near("times the floor", t["times_floor"], t["forward_backward_ms"] / floor)
layers = {l["name"]: l for l in t["layers"]}
# 8 x 32 x 20 x 20 places of 16 x 3 x 3 weights; x and y, weights and bias; nothing learns below it
near("conv", layers["c"]["forward"]["flops"], 2 * 102400 * 144)
near("conv", layers["c"]["forward"]["bytes"], 4 * (51200 + 102400 + 4608 + 32))
near("conv", layers["c"]["backward"]["flops"], 2 * 102400 * 144)
near("conv", layers["c"]["flops"], layers["c"]["forward"]["flops"])
if layers["bn"]["forward"]["bytes"] or layers["scale"]["does_the_work_of"] != "bn":
    bad.append("BatchNorm's work is counted twice")
print("\n".join(bad))
sys.exit(bool(bad))
EOF

refuses '*--threads*1,2*' time --model=net.prototxt --iterations=1 --threads=1,2
finish
