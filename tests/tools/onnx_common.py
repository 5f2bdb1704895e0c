"""A net through tools/to_onnx.py and onnxruntime, and through `poseidon extract`, from the same inputs and weights."""
import os
import subprocess
import sys

try:
    import h5py
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as missing:
    print("skipped: %s; h5py, onnx and onnxruntime are needed" % missing)
    sys.exit(77)

PROGRAM = os.environ["POSEIDON"]
TOOL = os.path.join(os.environ["abs_top_srcdir"], "tools", "to_onnx.py")


def run_program(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode:
        sys.exit("%s: status %d\n%s%s" % (" ".join(words), done.returncode, done.stdout, done.stderr))
    return done.stdout


def poseidon(*arguments):
    return run_program(PROGRAM, *arguments)


def data_layer(batch, tops=("data",)):
    """A layer of both phases that reads what write_inputs wrote."""
    return 'layer { name: "input" type: "HDF5Data" %s hdf5_data_param { source: "inputs.txt" batch_size: %d } }\n' % (
        " ".join('top: "%s"' % top for top in tops), batch)


def write_inputs(**sets):
    with h5py.File("inputs.h5", "w") as f:
        for name, values in sets.items():
            f[name] = values.astype(np.float32)
    with open("inputs.txt", "w") as f:
        f.write("inputs.h5\n")


def random_weights(net, batch=None):
    """Trains nothing for one iteration: weights by their fillers, and measured statistics. Returns the file."""
    with open("solver.prototxt", "w") as f:
        f.write('net: "%s" base_lr: 0 lr_policy: "fixed" max_iter: 1 random_seed: 3 snapshot_format: HDF5\n'
                'snapshot_prefix: "random"\n' % net)
    poseidon("train", "--solver=solver.prototxt", "--threads=1", *(["--batch=%d" % batch] if batch else []))
    return "random_iter_1.caffemodel.h5"


def export(net, weights, *options):
    """A session on net.onnx, which onnx's own checker has seen, and the names of its outputs."""
    run_program(sys.executable, TOOL, "--model=" + net, "--weights=" + weights, "--force", *options, "net.onnx")
    onnx.checker.check_model("net.onnx", full_check=True)
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession("net.onnx", settings, providers=["CPUExecutionProvider"])
    return session, [output.name for output in session.get_outputs()]


def extract(net, weights, blobs):
    """{blob: values} of a batch; the command takes 64 names at most."""
    found = {}
    for begin in range(0, len(blobs), 60):
        poseidon("extract", "--model=" + net, "--weights=" + weights, "--blobs=" + ",".join(blobs[begin:begin + 60]),
                 "--threads=1", "--force", "blobs.h5")
        with h5py.File("blobs.h5") as f:
            found.update({blob: f[blob][()] for blob in blobs[begin:begin + 60]})
    return found


def differences(ours, theirs):
    """A line for each blob that is not the same to 1e-4 of its largest value."""
    lines = []
    for blob in ours:
        most, found = np.abs(ours[blob]).max(), theirs.get(blob)
        if found is None or found.shape != ours[blob].shape:
            lines.append("%s: expected the shape %s, found %s" % (blob, ours[blob].shape, getattr(found, "shape", None)))
        elif not np.abs(ours[blob] - found).max() <= 1e-4 * most:
            lines.append("%s: differs by %g of %g" % (blob, np.abs(ours[blob] - found).max(), most))
    return lines


def run(session, **inputs):
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(None, inputs)))


def same(what, ours, theirs):
    lines = differences(ours, theirs)
    if lines:
        sys.exit("FAILED: %s:\n  %s" % (what, "\n  ".join(lines)))
    print("%s: %d outputs are the same" % (what, len(ours)))
