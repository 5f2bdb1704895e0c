#!/usr/bin/python3
"""Writes text_cases.txt: what protoc makes of pieces of text.

    generate_text.py src/nn/spec/caffe.proto >text_cases.txt

Each line is a case: the message that the text is read as, whether `protoc --encode` accepts it, the text, and
the bytes that protoc gives; bytes that cannot be printed are "\\ooo". The reader has to agree with all of them.
"""
import subprocess
import sys

NET, SOLVER, BLOB, DATUM, SHAPE = "NetParameter", "SolverParameter", "BlobProto", "Datum", "BlobShape"

CASES = [
    # layout
    (NET, ""), (NET, " \t\r\n"), (NET, "# only a comment"), (NET, "#"), (NET, "#\n"),
    (NET, "name: 'a' # b\n# c\r\nforce_backward: true"),
    (NET, "name:'a'force_backward:true"), (NET, "name: 'a', force_backward: true"),
    (NET, "name: 'a'; force_backward: true;"), (NET, "name: 'a',, force_backward: true"),
    (NET, "name: 'a';,"), (NET, ", name: 'a'"), (NET, "name 'a'"), (NET, "name = 'a'"),
    (NET, "name:: 'a'"), (NET, "name:\r\n\r\n'a'\r\n"), (NET, "name\n:\n'a'"),
    (NET, "// x\nname: 'a'"), (NET, "/* x */ name: 'a'"), (NET, "name: 'a' }"),
    (NET, "name: 'a' >"), (NET, "name: 'a' ]"), (NET, "Name: 'a'"), (NET, "NAME: 'a'"),
    (NET, "nam: 'a'"), (NET, "n\xc3\xa4me: 'a'"), (NET, "# \xc3\xa4 \xff\nname: 'a'"),
    (NET, "\x00"), (NET, "name: 'a'\x00"), (NET, "name: 'a'\x0cforce_backward: 1"),
    (NET, "name: 'a'\x0bforce_backward: 1"), (NET, "name: 'a'\x01"), (NET, "1: 'a'"),
    (NET, "name"), (NET, "name:"), (NET, "layer"), (NET, "layer:"), (NET, "layer {"),
    (NET, "layer { }"), (NET, "layer: { }"), (NET, "layer < >"), (NET, "layer: < >"),
    (NET, "layer { >"), (NET, "layer < }"), (NET, "layer [ ]"), (NET, "layer ( )"),
    (NET, "layer: 5"), (NET, "layer 'x'"), (NET, "layer { name: 'a' } } "),
    (NET, "layer { name: 'a' layer { }"), (NET, "layer { name: 'a'"), (NET, "{ }"),
    (NET, "{ name: 'a' }"), (NET, "layer { convolution_param { weight_filler { type: 'x' } } }"),
    (NET, "layer { convolution_param < weight_filler { type: 'x' } > }"),
    (NET, "layer { convolution_param { weight_filler < type: 'x' } } }"),
    (NET, "[caffe.x]: 1"), (NET, "[caffe.x] { }"), (NET, "layer: { name: 'a' }, layer { name: 'b' };"),
    # repeated
    (NET, "input: 'a' input: 'b' input_dim: 1 input: 'c' input_dim: 2"),
    (NET, "input: ['a', 'b']"), (NET, "input: ['a' 'b']"), (NET, "input: ['a', 'b' 'c', \"d\"]"),
    (NET, "input: []"), (NET, "input: ['a',]"), (NET, "input: [,]"), (NET, "input: ['a'"),
    (NET, "input ['a']"), (NET, "input: [['a']]"), (NET, "input: ['a'] input: ['b']"),
    (NET, "input: ['a';'b']"), (NET, "input_dim: [1, 2, 0x10, 010]"), (NET, "name: ['a']"),
    (NET, "force_backward: [true]"), (NET, "layer: [{ name: 'a' }, < name: 'b' >]"),
    (NET, "layer [{ name: 'a' }, { name: 'b' }]"), (NET, "layer: []"), (NET, "layer: [{ }"),
    (NET, "layer { loss_weight: [1, -2.5, inf] }"), (NET, "layer { propagate_down: [true, f, 0] }"),
    (SOLVER, "test_iter: [1, 2] test_iter: 3"), (SOLVER, "test_iter 5"), (SOLVER, "stepvalue: [ ]"),
    (SHAPE, "dim: [1, -1, 0, 9223372036854775807, -9223372036854775808]"),
    (SHAPE, "dim: 9223372036854775808"), (SHAPE, "dim: -9223372036854775809"),
    (SHAPE, "dim: 1 dim: 2 dim: [3, 4] dim: 5"),
    (BLOB, "data: [1, 2.5] data: 3 double_data: [1e300, -0.0, 5e-324]"),
    (BLOB, "shape { dim: [2, 3] } num: 7"),
    # the same field twice
    (NET, "name: 'a' name: 'b'"), (NET, "force_backward: true force_backward: true"),
    (NET, "state { } state { }"), (NET, "layer { name: 'a' } layer { name: 'a' }"),
    (NET, "layer { convolution_param { pad: 1 } convolution_param { pad: 2 } }"),
    (SOLVER, "base_lr: 0.1\nbase_lr: 0.2"),
    # strings
    (NET, 'name: "a"'), (NET, "name: 'a'"), (NET, "name: \"a'b\""), (NET, "name: 'a\"b'"),
    (NET, "name: 'a' \"b\" 'c'"), (NET, "name: 'a'\n# between\n'b'"), (NET, "name: ''"),
    (NET, "name: '' ''"), (NET, r"name: '\n\r\t\v\f\a\b\\\'\"\?'"), (NET, r"name: '\x41\x4\x4g\101\7\18\1234'"),
    (NET, r"name: '\X41'"), (NET, r"name: '\x'"), (NET, r"name: '\xg'"), (NET, r"name: '\q'"),
    (NET, r"name: '\8'"), (NET, r"name: '\u00e4\u20ac'"), (NET, r"name: '\u12'"),
    (NET, r"name: '\U0001F600'"), (NET, r"name: '\ud83d\ude00'"),
    (NET, "name: '\xc3\xa4'"), (NET, "name: 'a\tb'"), (NET, "name: 'a\nb'"), (NET, "name: 'a\r\nb'"),
    (NET, "name: 'a"), (NET, 'name: "a'), (NET, "name: 'a\\"), (NET, "name: 'a\\'"),
    (NET, "name: a"), (NET, "name: 5"), (NET, "name: true"), (NET, "name: -'a'"),
    (NET, "name: 'a\x00b'"), (NET, "name: \"a\\\nb\""), (NET, "name: u'a'"), (NET, "name: 'a'b"),
    (NET, r"name: 'a\\'"),
    (DATUM, r"data: '\000\377\x00' 'x' channels: 1"), (DATUM, "data: '' encoded: t"),
    (NET, "name: '%s'" % ("x" * 3000)),
    # integers
    (SOLVER, "max_iter: 0"), (SOLVER, "max_iter: 2147483647"), (SOLVER, "max_iter: 2147483648"),
    (SOLVER, "max_iter: -2147483648"), (SOLVER, "max_iter: -2147483649"), (SOLVER, "max_iter: 010"),
    (SOLVER, "max_iter: 0x1F"), (SOLVER, "max_iter: 0X1f"), (SOLVER, "max_iter: -0x10"),
    (SOLVER, "max_iter: - 5"), (SOLVER, "max_iter: --5"), (SOLVER, "max_iter: +5"),
    (SOLVER, "max_iter: 08"), (SOLVER, "max_iter: 1e5"), (SOLVER, "max_iter: 100.0"),
    (SOLVER, "max_iter: 100."), (SOLVER, "max_iter: '5'"), (SOLVER, "max_iter: 5f"),
    (SOLVER, "max_iter: 5x"), (SOLVER, "max_iter: 0x"), (SOLVER, "max_iter: 0xg"),
    (SOLVER, "max_iter: true"), (SOLVER, "max_iter: inf"), (SOLVER, "max_iter: { }"),
    (SOLVER, "max_iter: 3000000000"), (SOLVER, "max_iter: 99999999999999999999999999"),
    (SOLVER, "max_iter: 00"), (SOLVER, "max_iter: 0_1"), (SOLVER, "max_iter: 1,000"),
    (SOLVER, "random_seed: -9223372036854775808"), (SOLVER, "random_seed: 9223372036854775808"),
    (SOLVER, "random_seed: 0x7fffffffffffffff"), (SOLVER, "random_seed: 0777777777777777777777"),
    (NET, "layer { convolution_param { num_output: 4294967295 } }"),
    (NET, "layer { convolution_param { num_output: 4294967296 } }"),
    (NET, "layer { convolution_param { num_output: -1 } }"),
    (NET, "layer { convolution_param { num_output: -0 } }"),
    (NET, "layer { convolution_param { pad: [0x2, 02] kernel_size: 3, kernel_size: 5 } }"),
    # numbers with a fraction
    (SOLVER, "base_lr: 1"), (SOLVER, "base_lr: 1."), (SOLVER, "base_lr: .01"), (SOLVER, "base_lr: ."),
    (SOLVER, "base_lr: 1e-4"), (SOLVER, "base_lr: 1E+4"), (SOLVER, "base_lr: 1e"), (SOLVER, "base_lr: 1e+"),
    (SOLVER, "base_lr: 1f"), (SOLVER, "base_lr: 0.1F"), (SOLVER, "base_lr: 1.5ff"), (SOLVER, "base_lr: 1.2.3"),
    (SOLVER, "base_lr: inf"), (SOLVER, "base_lr: -inf"), (SOLVER, "base_lr: INF"), (SOLVER, "base_lr: Infinity"),
    (SOLVER, "base_lr: -infinity"), (SOLVER, "base_lr: infin"), (SOLVER, "base_lr: nan"), (SOLVER, "base_lr: NaN"),
    (SOLVER, "base_lr: 1e400"), (SOLVER, "base_lr: -1e400"), (SOLVER, "base_lr: 1e39"), (SOLVER, "base_lr: 1e-50"),
    (SOLVER, "base_lr: 3.4028235e38"), (SOLVER, "base_lr: 0.1"), (SOLVER, "base_lr: 16777217"),
    (SOLVER, "base_lr: - 0.5"), (SOLVER, "base_lr: -.5"), (SOLVER, "base_lr: +0.5"), (SOLVER, "base_lr: 0x10"),
    (SOLVER, "base_lr: 010"), (SOLVER, "base_lr: 010.5"), (SOLVER, "base_lr: 00.5"), (SOLVER, "base_lr: 0"),
    (SOLVER, "base_lr: -0"), (SOLVER, "base_lr: '0.1'"), (SOLVER, "base_lr: true"), (SOLVER, "base_lr: 1/2"),
    (SOLVER, "base_lr: 1e-4.5"), (SOLVER, "base_lr: 0.1display: 5"), (SOLVER, "base_lr: 1,5"),
    (SOLVER, "base_lr: 99999999999999999999999"), (SOLVER, "base_lr: 1.0000000596046448"),
    (SOLVER, "base_lr: 5.e-1"), (SOLVER, "base_lr: .5e1f"), (SOLVER, "base_lr: 1 2"),
    (SOLVER, "base_lr:.5"), (SOLVER, "base_lr.5"), (SOLVER, "base_lr: infinity.5"),
    # truth
    (NET, "force_backward: true"), (NET, "force_backward: false"), (NET, "force_backward: True"),
    (NET, "force_backward: False"), (NET, "force_backward: t"), (NET, "force_backward: f"),
    (NET, "force_backward: 1"), (NET, "force_backward: 0"), (NET, "force_backward: 2"),
    (NET, "force_backward: 01"), (NET, "force_backward: 0x1"), (NET, "force_backward: TRUE"),
    (NET, "force_backward: T"), (NET, "force_backward: yes"), (NET, "force_backward: on"),
    (NET, "force_backward: 'true'"), (NET, "force_backward: -1"), (NET, "force_backward: 1.0"),
    # names of values
    (SOLVER, "solver_mode: CPU"), (SOLVER, "solver_mode: GPU"), (SOLVER, "solver_mode: gpu"),
    (SOLVER, "solver_mode: 0"), (SOLVER, "solver_mode: 1"), (SOLVER, "solver_mode: 2"),
    (SOLVER, "solver_mode: -1"), (SOLVER, "solver_mode: 0x1"), (SOLVER, "solver_mode: 'GPU'"),
    (SOLVER, "solver_mode: 1.0"), (SOLVER, "solver_mode: GPU GPU"), (SOLVER, "snapshot_format: HDF5"),
    (SOLVER, "solver_mode: 99999999999"), (SOLVER, "solver_mode: -"), (SOLVER, "solver_mode: {}"),
    (NET, "state { phase: TRAIN stage: 'a' stage: 'b' level: -3 }"),
    (NET, "layer { type: CONVOLUTION }"), (NET, "layers { type: CONVOLUTION }"),
    (NET, "layers { type: 'Convolution' }"), (NET, "layers { type: 4 }"), (NET, "layers { type: 40 }"),
    (NET, "layers { layer { type: 'conv' } }"), (NET, "layer { include: { phase: TEST } }"),
    (NET, "layer { pooling_param { pool: AVE round_mode: FLOOR } eltwise_param { operation: PROD } }"),
    # unknown fields
    (NET, "foo: 1"), (NET, "foo { bar: 'x' }"), (NET, "layer { foo: [1, 2] }"), (NET, "layer { num_output: 5 }"),
    (NET, "foo"), (SOLVER, "learning_rate: 1"),
]


def encode(proto, message, text):
    run = subprocess.run(
        ["protoc", "--proto_path=" + proto.rsplit("/", 1)[0], "--encode=caffe." + message,
         proto.rsplit("/", 1)[1]], input=text, capture_output=True, check=False)
    return run.stdout if run.returncode == 0 else None


def escaped(data):
    return "".join(chr(b) if 32 <= b < 127 and b != 92 else "\\%03o" % b for b in data)


def main():
    for message, text in CASES:
        raw = text.encode("latin-1")
        got = encode(sys.argv[1], message, raw)
        print(message, "refused" if got is None else "accepted", escaped(raw), escaped(got or b""), sep="\t")


main()
