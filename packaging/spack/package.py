# Spack's recipe, for Spack 1.0 or later. In the folder of an unpacked release (a file of "make dist"), or of the repository
# after autoreconf -fi:
#
#     spack repo create ~/mine mine
#     mkdir ~/mine/spack_repo/mine/packages/poseidon
#     cp packaging/spack/package.py ~/mine/spack_repo/mine/packages/poseidon
#     spack repo add ~/mine/spack_repo/mine
#     spack dev-build poseidon@1.0.0
from spack_repo.builtin.build_systems.autotools import AutotoolsPackage

from spack.package import *


class Poseidon(AutotoolsPackage):
    """Trains convolutional networks data-parallel on clusters from Caffe's layer files, with wait-free
    backpropagation and hybrid communication."""

    homepage = "https://arxiv.org/abs/1512.06216"

    license("BSD-3-Clause")

    version("1.0.0")

    variant("lmdb", default=True, description="Read and write LMDB")
    variant("leveldb", default=True, description="Read LevelDB")
    variant("images", default=True, description="Read JPEG, PNG and WebP")
    variant("pictures", default=False, description="tools/draw.py makes pictures by Graphviz's dot, not .dot alone")
    variant("cuda", default=False, description="Build the CUDA engine")

    depends_on("c", type="build")
    depends_on("pkgconf", type="build")
    depends_on("gmake", type="build")

    depends_on("openmpi@4:")
    depends_on("hdf5~mpi@1.10:")
    # version 3 would do, without Winograd's algorithm
    depends_on("onednn@2.6:2")
    depends_on("protobuf-c")
    depends_on("lmdb", when="+lmdb")
    depends_on("leveldb", when="+leveldb")
    depends_on("libjpeg-turbo", when="+images")
    depends_on("libpng", when="+images")
    depends_on("libwebp", when="+images")
    depends_on("graphviz+expat+pangocairo", when="+pictures", type="run")
    depends_on("python@3.6:", when="+pictures", type="run")
    depends_on("cuda@12:", when="+cuda")
    depends_on("cudnn@9.8:", when="+cuda", type=("build", "run"))
    depends_on("check", type="test")

    def configure_args(self):
        spec = self.spec
        args = ["MPICC=" + spec["openmpi"].mpicc, "--with-hdf5=" + spec["hdf5"].prefix, "--with-dnnl=" + spec["onednn"].prefix]
        args += ["--with-lmdb" if "+lmdb" in spec else "--without-lmdb"]
        args += ["--with-leveldb" if "+leveldb" in spec else "--without-leveldb"]
        args += ["--with-jpeg" if "+images" in spec else "--without-jpeg"]
        args += ["--with-png" if "+images" in spec else "--without-png"]
        args += ["--with-webp" if "+images" in spec else "--without-webp"]
        args += ["--with-cuda" if "+cuda" in spec else "--without-cuda"]
        return args
