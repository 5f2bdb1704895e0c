#!/usr/bin/env python3
"""Goodput: iterations that a run keeps while faults strike, beside those of the run that nobody disturbs.

    tests/cluster/bench_goodput.py --poseidon=build/poseidon [--ranks=4] [--net=lenet] [--minutes=10] [--every=29]
                                   [--faults=kill,kill,stop] [--stop=15] [--cut=10] [OPTION of train...]
    tests/cluster/box.sh --hosts=8 --rate=1gbit -- /usr/bin/python3 tests/cluster/bench_goodput.py --poseidon=...

jobs/keep_running.sh trains on this machine, or on the hosts of the box, a rank each. Every --every seconds the next fault of
--faults strikes a random rank: kill (SIGKILL), stop (SIGSTOP for --stop seconds), cut (its host's link is down for --cut
seconds; in a box). After --minutes the run is told to stop. Then the same iterations are trained without a fault: goodput is
the time that they take, from the launch to the end, over the time with faults. Both runs must end with the same parameters,
to the last bit. POSEIDON_SEED draws other ranks.
"""
import argparse
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
NETS = {"lenet": "models/lenet/train_val.prototxt", "alexnet": "models/alexnet_flowers/train_val.prototxt"}


def ranks_of(folder):
    """Process and host (None outside a box) of each rank that trains in `folder`."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/cmdline" % pid, "rb") as file:
                words = file.read().split(b"\0")
            with open("/proc/%s/environ" % pid, "rb") as file:
                names = dict(word.partition(b"=")[::2] for word in file.read().split(b"\0"))
            if b"train" in words[:2] and os.readlink("/proc/%s/cwd" % pid) == folder and b"OMPI_COMM_WORLD_RANK" in names:
                found.append(int(pid))
        except OSError:
            pass
    return found


def host_of(pid, hosts):
    for number, _ in enumerate(hosts, 1):
        space = "%s-%d" % (os.environ["BOX_NAME"], number)
        said = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True, check=False).stdout
        if str(pid) in said.split():
            return space
    return None


def strike(fault, pid, o, hosts):
    """Makes a fault, and returns the seconds that it lasts and what ends it."""
    if fault == "kill":
        os.kill(pid, signal.SIGKILL)
        return 0, lambda: None
    if fault == "stop":
        os.kill(pid, signal.SIGSTOP)
        return o.stop, lambda: os.path.exists("/proc/%d" % pid) and os.kill(pid, signal.SIGCONT)
    link = host_of(pid, hosts)
    subprocess.run(["ip", "link", "set", link, "down"], check=True)
    return o.cut, lambda: subprocess.run(["ip", "link", "set", link, "up"], check=True)


def disturb(o, folder, hosts, log):
    """Trains for o.minutes with faults; returns the seconds and how many faults of each kind there were."""
    draw = random.Random(int(os.environ.get("POSEIDON_SEED", "1")))
    command = ["sh", os.path.join(TOP, "jobs/keep_running.sh"), "--hostfile=hosts", "--", "--solver=solver.prototxt",
               "--summary=kept.json", *o.options]
    environment = dict(os.environ, POSEIDON=o.poseidon, RESTARTS="1000",
                       LAUNCH="mpirun --oversubscribe --allow-run-as-root --bind-to none")
    counts, healed = {}, []
    begin = time.monotonic()
    with open(log, "w") as file:
        run = subprocess.Popen(command, cwd=folder, env=environment, stderr=file, stdout=subprocess.DEVNULL)
    at = begin + o.every
    end = begin + 60 * o.minutes
    while time.monotonic() < end and run.poll() is None:
        for moment, heal in [h for h in healed if h[0] <= time.monotonic()]:
            heal()
            healed.remove((moment, heal))
        # the last fault leaves time to train again: a run that is told to stop before that has no summary
        pids = ranks_of(folder) if at <= time.monotonic() < end - o.every / 2 else []
        if len(pids) == o.ranks:
            fault = o.faults[sum(counts.values()) % len(o.faults)]
            lasts, heal = strike(fault, draw.choice(sorted(pids)), o, hosts)
            healed.append((time.monotonic() + lasts, heal))
            counts[fault] = counts.get(fault, 0) + 1
            at += o.every
        time.sleep(0.1)
    for _, heal in healed:
        heal()
    if run.poll() is not None:
        sys.exit("keep_running.sh ended with %d:\n%s" % (run.returncode, open(log).read()[-3000:]))
    run.send_signal(signal.SIGTERM)
    run.wait(300)
    return time.monotonic() - begin, counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poseidon", required=True)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--net", choices=sorted(NETS), default="lenet")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--every", type=float, default=29)
    parser.add_argument("--faults", type=lambda text: text.split(","), default=["kill"])
    parser.add_argument("--stop", type=float, default=15)
    parser.add_argument("--cut", type=float, default=10)
    o, o.options = parser.parse_known_args()
    o.poseidon = os.path.abspath(o.poseidon)
    hosts = os.environ.get("BOX_HOSTS", "").replace(",", " ").split()
    o.ranks = len(hosts) or o.ranks
    folder = os.path.realpath(tempfile.mkdtemp())
    try:
        shutil.copy(os.path.join(TOP, NETS[o.net]), os.path.join(folder, "net.prototxt"))
        os.symlink(os.path.join(TOP, "data"), os.path.join(folder, "data"))
        with open(os.path.join(folder, "solver.prototxt"), "w") as file:
            file.write('net: "net.prototxt" base_lr: 0.001 momentum: 0.9 lr_policy: "fixed" display: 100\n'
                       'max_iter: 100000000 snapshot_prefix: "kept" random_seed: 1\n')
        with open(os.path.join(folder, "hosts"), "w") as file:
            file.writelines("%s\n" % host for host in hosts or ["localhost slots=%d" % o.ranks])
        o.options = ["--threads=1", "--comm=ps", *o.options]
        seconds, counts = disturb(o, folder, hosts, os.path.join(folder, "kept.log"))
        with open(os.path.join(folder, "kept.json")) as file:
            kept = json.load(file)
        places = ["--host", ",".join(host + ":1" for host in hosts)] if hosts else ["--oversubscribe"]
        begin = time.monotonic()
        subprocess.run(["mpirun", "--allow-run-as-root", "--bind-to", "none", "-np", str(o.ranks), *places, o.poseidon, "train",
                        "--solver=solver.prototxt", "--snapshot-prefix=plain", "--summary=plain.json",
                        "--max-iter=%d" % kept["iterations"], *o.options], cwd=folder, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60 * o.minutes + 300)
        alone = time.monotonic() - begin
        with open(os.path.join(folder, "plain.json")) as file:
            plain = json.load(file)
        with open(os.path.join(folder, "kept.log")) as file:
            said = re.findall(r"All \d+ starts.*", file.read())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    same = plain["parameters_sha256"] == kept["parameters_sha256"]
    print("%s, %d ranks, %s: %d iterations in %.1f s, undisturbed in %.1f s: goodput %.1f %%; the parameters are %s" %
          (o.net, o.ranks, ", ".join("%d %s" % (n, fault) for fault, n in counts.items()), kept["iterations"], seconds, alone,
           100 * alone / seconds, "the same bits" if same else "OTHERS"))
    print("\n".join(said[-1:]))
    sys.exit(not same)


if __name__ == "__main__":
    main()
