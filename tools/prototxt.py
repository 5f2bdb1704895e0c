"""Nets in protobuf's text format, as trees of fields, so that fields unknown to any .proto survive."""
import collections
import os
import re

from tool_files import Refused

MOST_BYTES, MOST_DEPTH = 1 << 24, 100  # of a net; of messages within each other
Field = collections.namedtuple("Field", "name value line", defaults=(0,))
# A field's value is text as it was written, or a list of fields.
V1 = {name.upper(): name for name in (
    "AbsVal ArgMax Axpy BN BNLL Convolution3D HDF5Data HDF5Output Im2col LRN MVN NdConvolution NdPooling Pooling3D PReLU ReLU "
    "TanH").split()}
V1["SOFTMAXLOSS"] = "SoftmaxWithLoss"
V1_PARAM = {"blobs_lr": "lr_mult", "weight_decay": "decay_mult", "param": "name", "blob_share_mode": "share_mode"}


class Text:
    """A file's tokens, of which `token` in line `line` is the next; "" at the end."""
    tokens = re.compile(r"""\s+|\#[^\n]*|(?P<token>[-+.\w]+|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|[][{}<>:;,])""", re.ASCII)

    def __init__(self, path):
        if os.path.isdir(path):
            raise Refused(f"{path} is a folder; expected a net")
        with open(path, encoding="latin-1") as file:  # any bytes, which are written as they were
            self.text = file.read(MOST_BYTES + 1)
        if len(self.text) > MOST_BYTES:
            raise Refused(f"{path}: more than {MOST_BYTES >> 20} MB; expected a net in text form")
        self.path, self.at, self.next_line, self.line, self.token = path, 0, 1, 1, ""
        self.take()

    def take(self):
        """Returns the next token and goes on to the one behind it."""
        taken, self.token = self.token, ""
        while self.at < len(self.text) and not self.token:
            match = self.tokens.match(self.text, self.at)
            self.line = self.next_line
            if not match:
                found = self.text[self.at:self.at + 10].splitlines()[0]
                raise Refused(f"{self.path}:{self.line}: unexpected {found!a}; expected a net in text form")
            self.at, self.token = match.end(), match["token"] or ""
            self.next_line += match[0].count("\n")
        return taken

    def wrong(self, expected):
        found = f"'{plain(self.token)[:40]}'" if self.token else "the end of the file"
        return Refused(f"{self.path}:{self.line}: expected {expected}, found {found}")

    def message(self, end="", depth=0):
        """The fields before the token `end`."""
        fields = []
        if depth > MOST_DEPTH:
            raise self.wrong(f"at most {MOST_DEPTH} messages within each other")
        while self.token != end:
            if not re.match(r"[A-Za-z_]\w*$", self.token):
                raise self.wrong(f"a field's name{' or ' + end if end else ''}")
            line, name = self.line, self.take()
            if self.token == ":":
                self.take()
            elif self.token not in ("{", "<"):
                raise self.wrong(f"':' or '{{' behind {name}")
            fields.extend(Field(name, value, line) for value in self.values(depth))
            if self.token in (",", ";"):
                self.take()
        self.take()
        return fields

    def values(self, depth):
        """A field's value, or those of a list."""
        if self.token in ("{", "<"):
            return [self.message("}" if self.take() == "{" else ">", depth + 1)]
        if self.token != "[":
            return [self.scalar()]
        values = []
        while self.take() in ("[", ",") and self.token != "]":
            values += self.values(depth) if self.token != "[" else [self.scalar()]
            if self.token not in (",", "]"):
                raise self.wrong("',' or ']'")
        return values

    def scalar(self):
        if not self.token or self.token in "[]{}<>:;,":
            raise self.wrong("a value")
        parts = [self.take()]
        while parts[0][0] in "\"'" and self.token[:1] in ("'", '"'):
            parts.append(self.take())
        return " ".join(parts)


def lines(fields, indent=""):
    """A message as text, line by line."""
    for name, value, _ in fields:
        if isinstance(value, str):
            yield f"{indent}{name}: {value}\n"
        else:
            yield f"{indent}{name} {{\n"
            yield from lines(value, indent + "  ")
            yield f"{indent}}}\n"


def plain(value):
    """A string without its quotes."""
    parts = re.findall(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|\S+""", value)
    return "".join(part[1:-1] if part[0] in "\"'" else part for part in parts)


def make(*pairs):
    return [Field(name, value if isinstance(value, list) else str(value)) for name, value in pairs]


def quote(text):
    return '"' + re.sub(r'(?<!\\)"', r'\\"', text) + '"'


def every(fields, name):
    return [field.value for field in fields if field.name == name]


def v1_type(field):
    """Today's name of an old layer's type; "" of other fields."""
    old = every(field.value, "type")[-1:] if field.name == "layers" else []
    parts = old[0].split("_") if old and isinstance(old[0], str) else []
    return V1.get("".join(parts), "".join(map(str.capitalize, parts)))


def v1_layer(field):
    """A layer of `layers { }` in today's form; any other field as it is."""
    if field.name != "layers":
        return field
    params = [every(field.value, old) for old in V1_PARAM]
    params = [make(*[(new, values[i]) for new, values in zip(V1_PARAM.values(), params) if i < len(values)])
              for i in range(max(map(len, params)))]
    kept = [other for other in field.value if other.name not in (*V1_PARAM, "type")]
    new = make(("type", quote(v1_type(field))), *[("param", param) for param in params])
    return Field("layer", kept[:1] + new + kept[1:], field.line)
