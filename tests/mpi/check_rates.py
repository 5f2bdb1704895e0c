#!/usr/bin/python3
"""Recomputes plateau's rates from the losses in a log, by the rule of the forks that have it, one iteration late.

  check_rates.py LOG BASE GAMMA WINDOW SIZE...     rates of a log with display: 1; WINDOW: average_loss
"""
import re
import sys

log, base, gamma, window = open(sys.argv[1]).read(), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
sizes = [int(size) for size in sys.argv[5:]]
shown = {int(i): float(v) for i, v in re.findall(r'Iteration (\d+) \(.*?loss = ([-+.e\d]+)', log)}
rates = {int(i): float(v) for i, v in re.findall(r'Iteration (\d+), lr = ([-+.e\d]+)', log)}
first, last = min(rates), max(rates)
if first != 0 or len(rates) != last + 1 or len(shown) < len(rates):
    sys.exit('the log lacks iterations: %d rates up to %d, %d losses' % (len(rates), last, len(shown)))
least, event, step = float('inf'), 0, 0
for i in range(last + 1):
    expected = base * gamma ** step
    if abs(rates[i] - expected) > 1e-5 * expected:
        sys.exit('iteration %d: lr = %g, expected %g' % (i, rates[i], expected))
    # at the end of a window the displayed loss, smoothed over average_loss iterations, is the window's mean
    if (i + 1) % window == 0 and shown[i] < least:
        least, event = shown[i], i
    if step < len(sizes) and i >= event + sizes[step]:
        step, event = step + 1, i
if step == 0:
    sys.exit('the rate never dropped: nothing was compared')
print('%d rates, %d drops' % (len(rates), step))
