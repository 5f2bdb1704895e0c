"""libposeidon for Python: poseidon.torch wraps PyTorch modules, poseidon.jax jitted functions of JAX.

`python -m poseidon` prints which libposeidon was found, and by what.
"""
__version__ = "1.0.0"
