#!/usr/bin/python3
"""Reference values for tests/layers/value_cases.h: what layers and nets give and pass back, computed in double
precision by PyTorch and numpy from the layers' definitions. Writes values.txt beside itself, whose lines
value_record.py describes.

  /usr/bin/python3 tests/data/layers/generate.py

Cases are drawn from their place in a group or from their number: new cases go behind all others of their kind, so that
the values of the others stay.
"""
import os
import sys

import core_cases
import element_cases
import loss_cases
import net_cases
import norm_cases
import piece_cases
import spatial_cases
import value_record
import window_cases

groups = (norm_cases.batch_norm_cases, norm_cases.scale_cases, element_cases.unary_cases,
          piece_cases.piece_cases, piece_cases.reduction_cases, window_cases.window_cases,
          loss_cases.loss_cases, piece_cases.in_place_cases, window_cases.stochastic_cases)
for number, make in enumerate(groups):
    value_record.group(number, make)
core_cases.core()
net_cases.nets()
spatial_cases.spatial()
core_cases.smoothing()
value_record.group(len(groups), element_cases.gelu_cases)

path = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'values.txt')
with open(path, 'w') as f:
    f.write('# made by generate.py with PyTorch\n')
    f.write('\n'.join(value_record.out) + '\n')
print('%d cases, %d bytes' % (sum(l.startswith('case ') for l in value_record.out), os.path.getsize(path)),
      file=sys.stderr)
