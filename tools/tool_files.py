"""Outputs that are whole or not there, and endings of one line, for all tools of this folder."""
import argparse
import contextlib
import errno
import io
import os
import signal
import sys


class Refused(Exception):
    """What is wrong, for one line."""


class Output(io.FileIO):
    """A file whose first failed write is kept in `error`. HDF5 crashes at its end where a write fails."""
    error = None

    def write(self, data):
        rest = memoryview(data).cast("B")
        try:
            while rest:
                rest = rest[super().write(rest):]
        except OSError as error:
            self.error = self.error or error
        return len(data)

    def truncate(self, size=None):
        try:
            return super().truncate(size)
        except OSError as error:
            self.error = self.error or error
            return size

    def check(self):
        if self.error:
            raise self.error


def unwritten(path, reason):
    return Refused(f"{path} cannot be written: {os.strerror(reason)}")


@contextlib.contextmanager
def replace(path):
    """A file to be written, which becomes `path` when the block ends well, and else is removed."""
    place = os.path.realpath(path)
    temporary = f"{place}.{os.getpid()}.tmp"
    try:
        with Output(temporary, "x+") as output:
            yield output
            output.check()
            os.fsync(output.fileno())
        os.replace(temporary, place)
    except OSError as error:
        if not error.errno or error.filename not in (None, temporary):
            raise
        raise unwritten(path, error.errno) from None
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)


@contextlib.contextmanager
def write_hdf5(path):
    """An h5py.File to be written, and a function that fails where writing has failed so far."""
    import h5py
    with replace(path) as output:
        with h5py.File(output, "w") as file:
            yield file, output.check


def check_output(path, endings, sources, force):
    """Refuses an output of another ending, one that is an input, and without `force` one that exists and is not empty."""
    if os.path.isdir(path):
        raise Refused(f"{path} is a folder; expected the name of a file to write")
    if not path.endswith(endings):
        raise Refused(f"'{path}': expected a name that ends in {' or '.join(endings)}")
    if not os.path.isdir(os.path.dirname(path) or "."):
        raise unwritten(path, errno.ENOENT)
    if not os.path.exists(path):
        return
    if not os.path.isfile(path):
        raise Refused(f"{path} is a device or pipe; expected the name of a file to write")
    if any(os.path.exists(source) and os.path.samefile(source, path) for source in sources):
        raise Refused(f"{path} is one of the inputs; expected another file to write")
    if os.path.getsize(path) and not force:
        raise Refused(f"{path} exists already; --force replaces it")


def make_parser(usage, doc, words, epilog=None):
    """A parser of `words`, whose help is `usage` and the tool's docstring without its first line."""
    parser = argparse.ArgumentParser(prog=os.path.basename(sys.argv[0]), formatter_class=argparse.RawDescriptionHelpFormatter,
                                     usage="%(prog)s " + usage, description="\n".join(doc.splitlines()[2:]), epilog=epilog)
    for word in words:
        parser.add_argument(word, help=argparse.SUPPRESS)
    return parser


def missing(error):
    """What to install after an ImportError."""
    return f"{error.name} is missing: pip install {error.name} (tools/requirements.txt lists all)"


def run(main):
    """Calls `main`; what ends it early becomes one line and the status 1."""
    tool = os.path.basename(sys.argv[0])
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        main()
    except Refused as error:
        sys.exit(f"{tool}: {error}")
    except ImportError as error:
        sys.exit(f"{tool}: {missing(error)}")
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        sys.exit(f"{tool}: {where}{os.strerror(error.errno) if error.errno else error}")
    except MemoryError:
        sys.exit(f"{tool}: out of memory")
    except KeyboardInterrupt:
        sys.exit(f"{tool}: interrupted; nothing was written")
