"""Gyre in JAX: rotation under jit, with a derivative rule.

    q = gyre.jax.rotate(q, enc, positions)
    jax.grad(lambda q: gyre.jax.rotate(q, enc).sum())(q)

Arrays are in memory of the processor.  Outside of jit, every function of gyre takes arrays of JAX as they are (DLPack) and
returns such.  Tested with jax 0.10.2.
"""

from gyre.jax._rotate import rotate, uses_ffi

__all__ = ["rotate", "uses_ffi"]
