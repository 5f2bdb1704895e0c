#!/usr/bin/env python3
"""Lets two programs take turns, pass by pass, and prints the median of the ratios of their times.

    bench_pairs.py [--seconds=S] [--turns=N] 'COMMAND A' 'COMMAND B'

Each command is one like `bench_net --model=FILE --passes=0`: it says "ready", and then makes one pass for every
line it is given and prints its milliseconds. A is the new one, B the old; a ratio below 1 says that A is faster. Every
other turn B goes first.
"""
import argparse
import shlex
import statistics
import subprocess
import time


class Side:
    def __init__(self, command):
        self.process = subprocess.Popen(shlex.split(command), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if line.strip() != "ready":
            raise SystemExit("%s: expected 'ready', found %r" % (command, line))
        self.times = []

    def step(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.times.append(float(self.process.stdout.readline()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=120, help="stop after that long (default 120)")
    parser.add_argument("--turns", type=int, default=50, help="at most (default 50)")
    parser.add_argument("a")
    parser.add_argument("b")
    o = parser.parse_args()
    sides = [Side(o.a), Side(o.b)]
    start = time.monotonic()
    for turn in range(o.turns):
        for i in (0, 1) if turn % 2 == 0 else (1, 0):
            sides[i].step()
        if time.monotonic() - start > o.seconds:
            break
    a, b = (side.times for side in sides)
    ratios = sorted(x / y for x, y in zip(a, b))
    print("%d turns: A %.2f ms, B %.2f ms (medians); A/B median %.4f, quartiles %.4f and %.4f" % (
        len(a), statistics.median(a), statistics.median(b), statistics.median(ratios), ratios[len(ratios) // 4],
        ratios[(3 * len(ratios)) // 4]))
    for side in sides:
        side.process.stdin.close()
        side.process.wait()


main()
