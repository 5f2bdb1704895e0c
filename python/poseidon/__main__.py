"""python -m poseidon: prints this package, the libposeidon that it takes, and the MPI library of that. Starts no MPI."""
import ctypes
import os
import sys

from . import __version__, _library

try:
    library, path, source, mpi = _library.load()
except OSError as error:
    sys.exit(f"poseidon: {error}")
said = ctypes.create_string_buffer(8192)  # MPI_MAX_LIBRARY_VERSION_STRING of MPICH, the longest
library.MPI_Get_library_version(said, ctypes.byref(ctypes.c_int()))
print(f"poseidon {__version__} of {os.path.dirname(__file__)}")
print(f"libposeidon {library.poseidon_version().decode()} of {path}, found by {source}")
print(f"MPI of {mpi}: {said.value.decode().splitlines()[0].split(',')[0]}")
