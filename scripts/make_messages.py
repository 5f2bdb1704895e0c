#!/usr/bin/env python3
"""usage: make_messages.py

Prints docs/messages.md: messages of the program, each as the sources have it, under the page that explains it. The status
is 1 if a message is not in the sources, or a page lacks its heading. After a change: scripts/make_messages.py
>docs/messages.md; tests/test_messages_page.sh compares."""
import glob
import os
import re
import sys

# PAGE#HEADING, then a part of each message: the page shows the message up to the end of that part.
MESSAGES = """
first-net.md#when-it-does-not-start
no such file (the current folder is
expected whole numbers from 0 to %zu
expected num_output: %d
the net's blobs need %.1f MiB at batch
Nothing trains: every lr_mult of the net is 0
OMP_NUM_THREADS=1 in the environment
failures.md
This run overwrites %s of other runs
Ignoring %s of other runs
which trains something else
Nothing is left to do: the snapshot is of iteration %lld
and neither got further nor wrote a later snapshot
writes snapshots under this prefix
is stale: taking the lock over
The run took %lld samples an iteration, from here on
failures.md#snapshots
The snapshot of iteration %lld could not be written
No snapshot is written before the end
failures.md#nan-and-damaged-data
training has diverged; lower base_lr
times 87.3365
The update of iteration %lld is left out
left out; the next record takes its place
the data has shrunk while it is read
failures.md#the-same-bits-after-a-resume
--tune=check-sync: the parameters of rank
failures.md#lost-and-late-ranks
silent for %.0f s
has made no progress for %.0f s
has waited %.0f s for
was late: in the last
start the same program on every host
clusters.md
separate programs instead of one job of %s ranks
clusters.md#which-interface-messages-take
did not come through
clusters.md#containers
/dev/shm has %s left
performance.md
is bound to one core
Training waited for input
load imbalance: of
communication.md#ranks-of-one-host
Ranks exchange messages instead of sharing memory
communication.md#rounded-gradients
times as fast as the best exact plan
The snapshot has no residuals
communication.md#late-ranks
No iteration waits for the last
communication.md#the-same-bits-at-any-number-of-ranks
is no multiple of
data.md#pictures-of-labels
a palette is read as gray
a picture of labels with %s
data.md#photographs
a label would mean two classes
data.md#a-new-order-in-every-epoch
is sorted by label
gpus.md
solver_mode is GPU, but training runs on the CPU
this build has no CUDA engine
caffe.md#7-batchnorm
BatchNorm: each of %d workers normalises by its own samples
caffe.md#11-the-solver
clip_gradients is 0: nothing is clipped
from-caffe.md#what-differs
These losses are sums over a rank's samples
"""


def literals(folders):
    """Every text of the sources: neighbouring literals are one, numbers of 64 bits are %lld."""
    literal = r'"(?:[^"\\\n]|\\.)*"'
    found = []
    for path in sorted(path for folder in folders for path in glob.glob(folder + "/**/*.c*", recursive=True)):
        with open(path, encoding="utf-8") as file:
            text = re.sub(r'%" *PRI[a-z]*64 *', '%lld" ', file.read())
        for several in re.finditer("%s(?:\\s*%s)*" % (literal, literal), text):
            found.append("".join(part[1:-1] for part in re.findall(literal, several.group())))
    return found


def shown(message):
    """What a reader sees of a format: numbers as N, words as three dots."""
    message = re.sub(r"^(%s[:;] )+", "", message.replace('\\"', '"'))
    message = re.sub(r"%[-+0-9.*]*(ll|l|z|h)?[diufgx]", "N", message)
    message = re.sub(r"N%s", "N", re.sub(r"([a-z])%s\b", r"\1s", message))
    message = re.sub(r"'?%[-+0-9.*]*s'?", "...", message.replace("%s%s", "%s")).replace("%%", "%")
    return message.strip()


def heading_of(page, anchor):
    with open(os.path.join("docs", page), encoding="utf-8") as file:
        headings = re.findall(r"^#+ (.*)$", file.read(), re.MULTILINE)
    for heading in headings:
        if not anchor or re.sub(r"[^a-z0-9_-]", "", heading.lower().replace(" ", "-")) == anchor:
            return heading
    sys.exit("make_messages.py: docs/%s has no heading '#%s'" % (page, anchor))


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    texts = literals(["src", "cuda"])
    print("# Messages\n\nWhat you were told, below the page that explains it. N is a number, ... a name. `scripts/make_messages.py` writes this page.")
    for line in MESSAGES.split("\n")[1:-1]:
        place = re.fullmatch(r"([a-z-]+\.md)#?(.*)", line)
        if place:
            print("\n[%s](%s)\n" % (heading_of(*place.groups()), line))
            continue
        holding = sorted((text for text in texts if line in text), key=lambda text: text.index(line))
        if not holding:
            sys.exit("make_messages.py: no message of the sources has '%s'" % line)
        print("- `%s`" % shown(holding[0][:holding[0].index(line) + len(line)]))


if __name__ == "__main__":
    main()
