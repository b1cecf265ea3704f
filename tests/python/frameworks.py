"""Arrays of each framework that is installed, and numpy formulas in double to compare with."""

from __future__ import annotations

import importlib.util
from typing import Any, NamedTuple

import numpy as np


class Kind(NamedTuple):
    """A framework and a type."""

    framework: str
    dtype: str

    @property
    def epsilon(self) -> float:
        return {"float64": 2e-15, "float32": 2e-7, "float16": 1e-3, "bfloat16": 8e-3}[self.dtype]


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


KINDS = [Kind("numpy", dtype) for dtype in ("float32", "float64", "float16")]
KINDS += [Kind("buffer", "float32")]
if _has("ml_dtypes"):
    KINDS += [Kind("numpy", "bfloat16")]
if _has("torch"):
    KINDS += [Kind("torch", dtype) for dtype in ("float32", "float64", "float16", "bfloat16")]
if _has("jax"):
    KINDS += [Kind("jax", dtype) for dtype in ("float32", "float16", "bfloat16")]


def numpy_dtype(name: str) -> Any:
    if name != "bfloat16":
        return np.dtype(name)
    import ml_dtypes

    return np.dtype(ml_dtypes.bfloat16)


def make(kind: Kind, values: np.ndarray) -> Any:
    """values as an array of that kind, rounded to its type."""
    if kind.framework == "torch":
        import torch

        return torch.from_numpy(values.astype("f8")).to(getattr(torch, kind.dtype))
    rounded = values.astype(numpy_dtype(kind.dtype))
    if kind.framework == "jax":
        import jax.numpy as jnp

        return jnp.asarray(rounded)
    return memoryview(rounded) if kind.framework == "buffer" else rounded


def double(array: Any) -> np.ndarray:
    """Any array as doubles."""
    if type(array).__module__.startswith("torch"):
        return array.double().numpy()
    return np.asarray(array).astype("f8")


def returned_type(kind: Kind, given: Any) -> type:
    return np.ndarray if kind.framework == "buffer" else type(given)


def angles(positions: np.ndarray, dim: int, base: float) -> np.ndarray:
    """[..., dim / 2]: Su 2021."""
    return positions[..., None] * base ** (-np.arange(0, dim, 2) / dim)


def rotate(x: np.ndarray, angle: np.ndarray, layout: str = "half") -> np.ndarray:
    """x [..., dim] rotated by angle [..., dim / 2] in double."""
    x = x.astype("f8")
    if layout == "half":
        a, b = np.split(x, 2, axis=-1)
    else:
        a, b = x[..., 0::2], x[..., 1::2]
    c, s = np.cos(angle), np.sin(angle)
    p, q = a * c - b * s, a * s + b * c
    return np.concatenate([p, q], -1) if layout == "half" else np.stack([p, q], -1).reshape(x.shape)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, seen: np.ndarray | None = None, bias: Any = 0) -> np.ndarray:
    """softmax(q k / sqrt(d) + bias) v in double, [batch, heads, tokens, channels]; seen [queries, keys]."""
    group = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, group, 1).astype("f8"), np.repeat(v, group, 1).astype("f8")
    scores = q.astype("f8") @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) + bias
    if seen is not None:
        scores = np.where(seen, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)
