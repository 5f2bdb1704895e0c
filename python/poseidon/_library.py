"""libposeidon by ctypes, for poseidon.torch and poseidon.jax: finds the library, checks it, begins and ends MPI."""
import atexit
import ctypes
import functools
import os
import re
import shutil
import subprocess
import sys

from . import __version__

NAME = "libposeidon.so.1"
MEND = f"export POSEIDON_LIBRARY=/where/{NAME}"
BOTH = "install both from one source: make install, and pip install ./python"
FUNCTIONS = ("add add_at advice create destroy error fail gradient post post_factors post_factors_on post_on share skip start state_get "
             "state_set state_size takes_factors wait wait_all wait_on")  # of poseidon.h, without poseidon_


class Tensor(ctypes.Structure):  # struct poseidon_tensor
    _fields_ = [("name", ctypes.c_char_p), ("elems", ctypes.c_size_t), ("gradient", ctypes.c_void_p), ("values", ctypes.c_void_p)]
    _fields_ += [(name, ctypes.c_int64) for name in ("rows", "outputs", "inputs")]
    _fields_ += [(name, ctypes.c_double) for name in ("forward_seconds", "backward_seconds")]


class Place(ctypes.Structure):  # struct poseidon_place
    _fields_ = [("size", ctypes.c_size_t), ("memory", ctypes.c_int), ("type", ctypes.c_int)]


def _candidates():
    """Yields (path, source) of the places that may have the library, the first one to be taken first."""
    named = os.environ.get("POSEIDON_LIBRARY")
    if named:
        yield named, "POSEIDON_LIBRARY"
        return
    if shutil.which("pkg-config"):
        asked = subprocess.run(["pkg-config", "--variable=libdir", "poseidon"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if asked.stdout.strip():
            yield os.path.join(os.fsdecode(asked.stdout.strip()), NAME), "pkg-config"
    yield NAME, "the dynamic loader"
    folders = os.environ.get("PATH", "").split(os.pathsep)
    prefixes = [os.path.dirname(os.path.realpath(folder)) for folder in folders if shutil.which("poseidon", path=folder)]
    for prefix in dict.fromkeys([*prefixes, sys.prefix, os.path.expanduser("~/.local"), "/usr/local"]):
        for folder in "lib", "lib64":
            yield os.path.join(prefix, folder, NAME), "the usual folders"


def _mapped(pattern):
    """Returns the files in this process's memory whose names match."""
    with open("/proc/self/maps") as maps:
        files = {line.split(None, 5)[5].rstrip("\n") for line in maps if line.count("/")}
    return sorted(file for file in files if re.fullmatch(pattern, os.path.basename(file)))


def _open():
    """Returns the first library that is there, its path and its source."""
    looked = []
    for path, source in _candidates():
        try:
            library = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            there = os.path.isabs(path) and os.path.exists(path)
            if source != "POSEIDON_LIBRARY" and not there and path in str(error):
                looked.append(path if os.path.isabs(path) else source)
                continue
            text = str(error)
            text = text[len(path) + 2:] if text.startswith(path + ": ") else text
            mpi = re.search(r"\blibmpi\w*\.so[.\d]*(?=:)", text)
            way = f"expected the library's path: {MEND}"
            if mpi:
                way = (f"expected the MPI library that it was built for: make {mpi[0]} known (module load, or LD_LIBRARY_PATH), or build "
                       "poseidon with the MPI of this machine")
            raise OSError(f"{path}, found by {source}: {text}; {way}") from None
        return library, path if os.path.isabs(path) else (_mapped(re.escape(NAME)) or [path])[0], source
    raise OSError(f"no {NAME} found: POSEIDON_LIBRARY is not set, and it is not in {', '.join(looked)}: build poseidon and make install, "
                  f"or {MEND}")


def load():
    """Returns libposeidon, its path, what named the path, and the path of its MPI library. Starts no MPI.

    Raises an OSError with the way out: no library, one of another version, or one of another MPI than this process has."""
    library, path, source = _open()
    here = f"{path}, found by {source}"
    if not hasattr(library, "poseidon_version"):
        raise OSError(f"{here}: expected libposeidon, found a library without poseidon_version: {MEND}")
    library.poseidon_version.restype = ctypes.c_char_p
    version = library.poseidon_version().decode()
    found, wanted = ([int(number) for number in re.findall(r"\d+", text)] for text in (version, __version__))
    if found[:1] != wanted[:1] or found < wanted:
        raise OSError(f"{here}: version {version}; expected {__version__} or a later {wanted[0]}.x, for the Python package is "
                      f"{__version__}: {BOTH}")
    for name in FUNCTIONS.split():
        if not hasattr(library, "poseidon_" + name):
            raise OSError(f"{here}: version {version} without poseidon_{name}: {BOTH}")
    library.poseidon_error.restype = library.poseidon_advice.restype = ctypes.c_char_p
    library.poseidon_gradient.restype = ctypes.POINTER(ctypes.c_float)
    library.poseidon_state_size.restype = ctypes.c_size_t
    mpi = _mapped(r"lib(mpi|mpich|mpi_[a-z]+_\d+)\.so[.\d]*")
    if len(mpi) > 1:
        raise OSError(f"{here}: this process has two MPI libraries, {' and '.join(mpi)}: expected one, that of libposeidon: build poseidon "
                      "with the MPI of the other modules (mpi4py), or these with poseidon's")
    return library, path, source, mpi[0] if mpi else path


class Library:
    """libposeidon and the MPI library it is linked with, which is initialised."""

    def __init__(self):
        self.library = load()[0]
        self.open, self.used = {}, False  # owners by handle: MPI's end closes them
        self.library.MPI_Initialized(ctypes.byref(there := ctypes.c_int()))
        if not there.value:  # by Open MPI 4's default, ranks that all send at once get half of a link
            os.environ.setdefault("OMPI_MCA_btl_tcp_flags", "send,inplace")
            self.library.MPI_Init_thread(None, None, 3, ctypes.byref(ctypes.c_int()))  # MPI_THREAD_MULTIPLE
            atexit.register(self.end, os.getpid())
        try:
            self.world = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(self.library, "ompi_mpi_comm_world")))
        except ValueError:  # MPICH's communicators are numbers, Open MPI's are addresses
            self.world = ctypes.c_int(0x44000000)

    def call(self, name, *arguments):
        """Calls poseidon_NAME, and raises its message."""
        if (status := getattr(self.library, "poseidon_" + name)(*arguments)) < 0:
            raise RuntimeError(self.library.poseidon_error().decode())
        return status

    def create(self, owner, comm, options):
        """Returns a new handle, which `owner` closes. Collective."""
        words = ",".join(filter(None, ("comm=" + comm, options)))
        self.call("create", self.world, words.encode(), ctypes.byref(handle := ctypes.c_void_p()))
        self.open[handle.value], self.used = owner, True
        return handle

    def destroy(self, handle):
        self.open.pop(handle.value, None)
        return self.call("destroy", handle)

    def end(self, pid=None):
        """Closes all handles and ends MPI. With pid, only at the exit of that process, and not after an exception or before the first
        handle: MPI's end waits for all ranks, and a rank that exits without it ends the job."""
        self.library.MPI_Finalized(ctypes.byref(over := ctypes.c_int()))
        if over.value or pid and (pid != os.getpid() or not self.used or getattr(sys, "last_value", None) is not None):
            return
        for handle in list(self.open):
            try:
                self.destroy(ctypes.c_void_p(handle))
            except RuntimeError as error:
                if pid:
                    return print("poseidon:", error, file=sys.stderr)
        self.library.MPI_Finalize()

    def place(self, name):
        getattr(self.library, "MPI_Comm_" + name)(self.world, ctypes.byref(value := ctypes.c_int()))
        return value.value


library = functools.lru_cache(maxsize=None)(Library)  # one a process


def rank():
    """Returns this process's number among those of the job, from 0 on."""
    return library().place("rank")


def size():
    """Returns the number of ranks."""
    return library().place("size")


def finalize():
    """Ends MPI, as the exit of Python does, too, but after an exception."""
    library().end()
