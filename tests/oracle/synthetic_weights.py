"""Weights that follow from a seed, a tensor's name and an index alone: the same numbers here and in tests/support/make_synthetic_model.c."""
import numpy as np

GAMMA = 0x9E3779B97F4A7C15
ALL = (1 << 64) - 1


def name_state(seed, name):
    """FNV-1a over the name's bytes, begun at the usual basis XOR seed."""
    state = 0xCBF29CE484222325 ^ seed
    for byte in name.encode():
        state = ((state ^ byte) * 0x100000001B3) & ALL
    return state


def narrowed(x, dtype):
    """Floats as a file of that type gives them back, rounded to the nearest, to even between two."""
    if dtype == "F16":
        return x.astype(np.float16).astype(np.float32)
    if dtype == "BF16":
        bits = x.view(np.uint32).astype(np.uint64)
        return (((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) << 16).astype(np.uint32).view(np.float32)
    return x


def values(seed, name, shape, center, spread, dtype="F32"):
    """Splitmix64 counts up from the name's state; number i is uniform in center +- spread, rounded to a float."""
    count = int(np.prod(shape))
    with np.errstate(over="ignore"):
        z = np.uint64(name_state(seed, name)) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(GAMMA)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    uniform = (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
    floats = (center + spread * (2.0 * uniform - 1.0)).astype(np.float32)
    return narrowed(floats, dtype).astype(np.float64).reshape(shape)


class Weights:
    """Makes each tensor when a model first asks for it, and remembers what was asked for, in order."""

    def __init__(self, seed, dtype="F32"):
        self.seed, self.dtype, self.asked, self.made = seed, dtype, {}, {}

    def get(self, name, shape, center, spread, dtype=None):
        spread = float("%.4g" % spread)
        if name not in self.made:
            self.asked[name] = [list(shape), center, spread]
            self.made[name] = values(self.seed, name, shape, center, spread, dtype or self.dtype)
        return self.made[name]

    def matrix(self, name, out, inputs, strength=1.0):
        """[out, in], of deviation strength / sqrt(in)."""
        return self.get(name, (out, inputs), 0.0, strength * np.sqrt(3.0 / inputs))

    def matrix_in_out(self, name, inputs, out):
        """Stored the other way round: GPT-2's Conv1D."""
        return self.get(name, (inputs, out), 0.0, np.sqrt(3.0 / inputs))

    def stack(self, name, *shape):
        """A matrix for each of shape[0] experts, whose inputs are shape[1]."""
        return self.get(name, shape, 0.0, np.sqrt(3.0 / shape[1]))

    def table(self, name, rows, width, deviation=1.0):
        return self.get(name, (rows, width), 0.0, deviation * np.sqrt(3.0))

    def gain(self, name, n):
        return self.get(name, (n,), 1.0, 0.4)

    def gain_around_zero(self, name, n):
        return self.get(name, (n,), 0.0, 0.4)

    def bias(self, name, n):
        return self.get(name, (n,), 0.0, 0.3)

    def bytes(self, name, shape, first, end):
        """Whole numbers of first .. end - 1, stored as U8: the tensor's name ends in _blocks or _scales."""
        drawn = self.get(name, shape, (first + end) / 2, (end - first) / 2, "F32")
        return np.floor(drawn).clip(first, end - 1).astype(np.int64)

    def unused(self, name, shape):
        """A tensor that old files hold and no model of today reads."""
        self.get(name, shape, 5.0, 1.0)
