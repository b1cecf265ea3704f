"""What a function that rotates queries does, found by running it on unit vectors.

Such a function is linear in the channels of a query.  Its matrix at each token is found column by column; which channels turn
together, by which angle, and in which order they leave follows from the matrix and from no name.
"""

from dataclasses import dataclass

import torch

# Where a channel does not turn, a function adds it times zero or not at all.
ZERO = 1e-12


class NoRotation(Exception):
    """What ran is no rotation; the text says why."""


@dataclass(frozen=True)
class Rotation:
    """A rotation of vectors of some channels at each token of a run."""

    channels: int
    pairs: tuple[tuple[int, int], ...]  # channels that turn together; the second gets the sine of the first
    angles: tuple[tuple[float, ...], ...]  # [pair][token], from -pi to pi, relative to the first token
    factor: float  # every vector also grows by it
    moved: bool  # channels leave in another order than they enter


def token_axis(turned):
    """The axis of turned [..., channels] along which vectors differ, or None; given are equal vectors."""
    for axis in range(turned.dim() - 1):
        if turned.shape[axis] > 1 and not torch.equal(turned, turned.narrow(axis, 0, 1).expand_as(turned)):
            return axis
    return None


def unit_vectors_at_once(function, given, axis):
    """Like unit_vectors, with the vectors along the first axis; None where the function does not take that."""
    if axis == 0 or given.dim() < 3 or given.shape[0] != 1:
        return None
    channels = given.shape[-1]
    shape = [1] * given.dim()
    shape[0], shape[-1] = channels, channels
    units = torch.eye(channels).reshape(shape)
    units = units.expand(channels, *(n if i + 1 == axis else 1 for i, n in enumerate(given.shape[1:-1])), channels)
    try:
        turned = function(units.contiguous())
    except Exception:
        return None
    if turned.shape != units.shape:
        return None
    return turned.movedim(axis, 1).reshape(channels, given.shape[axis], channels).permute(1, 2, 0)


def unit_vectors(function, given, axis):
    """[tokens, row, column]: the function of the unit vector of each channel (column), at each token."""
    columns = []
    for channel in range(given.shape[-1]):
        unit = torch.zeros(given.shape[-1])
        unit[channel] = 1.0
        turned = function(unit.expand(given.shape).contiguous()).movedim(axis, 0)
        columns.append(turned.reshape(turned.shape[0], -1, turned.shape[-1])[:, 0])
    return torch.stack(columns, dim=-1)


def matrices(function, given):
    """float64 [tokens, channels, channels]: the matrix of a function of given [..., channels] at each token.

    All heads are alike.  Raises NoRotation where the function is not linear, or the same at every token.
    """
    vector = torch.randn(given.shape[-1], generator=torch.Generator().manual_seed(0))
    turned = function(vector.expand(given.shape).contiguous())
    if turned.shape != given.shape:
        raise NoRotation("it returns another shape than it takes")
    axis = token_axis(turned)
    if axis is None:
        raise NoRotation("it is the same at every token")
    want = turned.movedim(axis, 0)
    want = want.reshape(want.shape[0], -1, want.shape[-1])[:, 0]
    for found in (unit_vectors_at_once(function, given, axis), None):
        found = unit_vectors(function, given, axis) if found is None else found
        if torch.allclose(found @ vector, want, atol=1e-4):
            return found.double()
    raise NoRotation("it is not linear")


def pairs_of(turns):
    """[(first, second)] of the channels that turns [tokens, channels, channels] mixes."""
    mixed = turns.abs().amax(dim=0).fill_diagonal_(0.0) > ZERO
    pairs = []
    for first in range(turns.shape[-1]):
        others = mixed[:, first].nonzero().flatten().tolist()
        if not others:
            continue
        if len(others) > 1 or mixed[first].nonzero().flatten().tolist() != others:
            raise NoRotation(f"channel {first} mixes with others than one")
        if first < others[0]:
            pairs.append((first, others[0]))
    if not pairs:
        raise NoRotation("no channel turns")
    return pairs


def rows_of(found, pair):
    """The channels in which a pair leaves."""
    return set(found[:, :, list(pair)].abs().amax(dim=(0, 2)).gt(ZERO).nonzero().flatten().tolist())


def rotation(found):
    """The Rotation that matrices() are; raises NoRotation where they are none."""
    lengths = found[0].square().sum(dim=0)
    turns = (found[0].T / lengths[:, None]) @ found  # from the order in which channels enter to the same
    pairs = pairs_of(turns)
    angles = []
    for first, second in pairs:
        sine, cosine = turns[:, second, first], turns[:, first, first]
        unlike = (sine + turns[:, first, second]).abs().max(), (cosine - turns[:, second, second]).abs().max()
        if max(unlike) > 1e-5 or (sine.square() + cosine.square() - 1).abs().max() > 1e-5:
            raise NoRotation(f"channels {first} and {second} mix, but do not turn")
        angles.append(tuple(torch.atan2(sine, cosine).tolist()))
    channels = found.shape[-1]
    moved = any(rows_of(found, pair) != set(pair) for pair in pairs)
    factor = lengths[[channel for pair in pairs for channel in pair]].sqrt().max().item()
    return Rotation(channels, tuple(pairs), tuple(angles), factor, moved)
