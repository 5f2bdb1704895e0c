#!/usr/bin/python3
"""Reads TensorBoard's event files without TensorFlow: read_events.py FOLDER prints "step tag value" of what remains when
steps from a later file's session start on are dropped, as TensorBoard does. Checks lengths, sums and versions.

With `tensorboard` importable, read_events.py --tensorboard FOLDER prints what TensorBoard itself reads.
"""
import glob
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir))
from message_fields import fields


def crc32c(data):
    """By the table of the polynomial 0x1EDC6F41, reflected (RFC 3720, appendix B.4)."""
    crc = 0xffffffff
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xff] ^ crc >> 8
    return crc ^ 0xffffffff


def table_entry(n):
    for _ in range(8):
        n = n >> 1 ^ (0x82F63B78 if n & 1 else 0)
    return n


TABLE = [table_entry(n) for n in range(256)]
assert crc32c(b'123456789') == 0xE3069283  # the check value of catalogues of CRCs
assert crc32c(bytes(32)) == 0x8A9136AA     # RFC 3720


def mask(crc):
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xffffffff


def records(path):
    data, at = open(path, 'rb').read(), 0
    while at < len(data):
        length, = struct.unpack_from('<Q', data, at)
        head, = struct.unpack_from('<I', data, at + 8)
        body = data[at + 12:at + 12 + length]
        tail, = struct.unpack_from('<I', data, at + 12 + length)
        assert head == mask(crc32c(data[at:at + 8])), '%s: sum of a length at %d' % (path, at)
        assert tail == mask(crc32c(body)), '%s: sum of data at %d' % (path, at)
        yield body
        at += 16 + length


def read(folder):
    rows = []
    for path in sorted(glob.glob(os.path.join(folder, 'events.out.tfevents.*')), key=os.path.getmtime):
        events = [fields(r) for r in records(path)]
        assert events[0][3] == [b'brain.Event:2'], 'no version'
        for e in events:
            step, wall = e.get(2, [0])[0], struct.unpack('<d', e[1][0])[0]
            assert 1.6e9 < wall < 1e10, 'the time is %g' % wall
            if 7 in e:
                assert fields(e[7][0])[1] == [1], 'no start'
                rows = [r for r in rows if r[0] < step]
            for value in fields(e[5][0])[1] if 5 in e else []:
                v = fields(value)
                rows.append((step, v[1][0].decode(), struct.unpack('<f', v[2][0])[0]))
    return rows


def read_by_tensorboard(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    accumulator = EventAccumulator(folder, size_guidance={'scalars': 0})
    accumulator.Reload()
    return [(s.step, tag, s.value) for tag in accumulator.Tags()['scalars'] for s in accumulator.Scalars(tag)]


if __name__ == '__main__':
    by = read_by_tensorboard if sys.argv[1] == '--tensorboard' else read
    for row in sorted(by(sys.argv[-1])):
        print('%d %s %.6g' % row)
