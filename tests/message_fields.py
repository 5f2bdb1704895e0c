"""Protobuf's encoding without protobuf: what a message that somebody else wrote holds, for tests and generators."""


def varint(data, at):
    """The number at data[at], and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def fields(data):
    """{number: all values in their order} of a message: varints as numbers, all else as the bytes that it has."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        else:
            if key & 7 == 2:
                length, at = varint(data, at)
            else:
                length = {1: 8, 5: 4}[key & 7]
            value, at = data[at:at + length], at + length
        found.setdefault(key >> 3, []).append(value)
    return found
