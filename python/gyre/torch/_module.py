"""RotaryEmbedding, and the operator gyre::cos_sin."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import is_in_torch_dispatch_mode

from gyre import _encoding
from gyre._encoding import Encoding
from gyre._errors import Error
from gyre._guesses import named
from gyre.torch import _device, _lengths
from gyre.torch._own import own_module
from gyre.torch._specs import (
    check_angle_positions,
    check_device,
    check_fake,
    depends_on_length,
    dtype_text,
    encoding_of,
    length_of,
    spec_of,
    tensor,
    whole,
)

FORMS = ("half", "interleaved", "pairs", "complex")


@torch.library.custom_op(
    "gyre::cos_sin", mutates_args=(), schema="(Tensor positions, str encoding, SymInt length) -> (Tensor, Tensor)"
)
def _cos_sin(positions: Tensor, encoding: str, length: int) -> tuple[Tensor, Tensor]:
    length = _lengths.in_use(length, positions, encoding)
    cosine, sine = encoding_of(encoding)._cos_sin(positions, pairs=True, length=length)
    return cosine.contiguous(), sine.contiguous()


@_cos_sin.register_fake
def _(positions: Tensor, encoding: str, length: int) -> tuple[Tensor, Tensor]:
    config = encoding_of(encoding).config
    check_angle_positions(positions, max(1, config["rope.axes"]))
    shape = positions.shape[1:] if config["rope.axes"] > 1 else positions.shape
    like = positions.new_empty((*shape, config["rope.dim"] // 2), dtype=torch.float32)
    return like, torch.empty_like(like)


def groups_of(config: Any, profile: str | None) -> dict[str, Encoding]:
    """The encodings of a config that rotate, by the names of their layers; of a vision tower, none."""
    found = {}
    for group in _encoding.read(config, profile)["groups"]:
        if not _encoding.is_beside(group["name"]) and group["config"].get("kind") == "rope":
            found[group["name"]] = Encoding(**group["config"])
    return found


class RotaryEmbedding(nn.Module):
    """cos and sin of positions, as transformers' rotary modules return them, from a module without buffers.

    What it knows is the encoding, so nothing of it is lost on the meta device, rounded by half() or bfloat16(), left out by
    a state_dict, or touched by autocast: angles are computed in each call, to the last bit of float32, and the results
    rounded once to the type of x.

        model.model.rotary_emb = gyre.torch.RotaryEmbedding.from_config(model.config)
    """

    @named
    def __init__(
        self, encoding: Encoding | Mapping[str, Encoding], *, form: str = "half", cached: int = 0, length: int | None = None
    ) -> None:
        """
        Args:
            encoding: a RoPE, or one for each type of layers where these differ: {"full_attention": ..., ...}.
            form: of the results' last axis, dim numbers: "half" [c0 c1 .. c0 c1 ..] or "interleaved" [c0 c0 c1 c1 ..];
                "pairs": dim / 2 numbers; "complex": one tensor of cos + i sin, dim / 2 numbers.
            cached: calls on the processor whose positions are all below it look cos and sin up in a table, which grows
                with the positions that were asked for; the same bits.  The table is no buffer, and is left out of copies
                and pickles.  A scaling that depends on the length has one within the trained length, several axes where
                all have the same positions.  torch.compile computes.  0 = no table.  On other devices: under dynamic NTK and
                YaRN there is a table of the frequencies at each length up to it, if that is past the trained length, so that
                no length is read; a call with a position from `cached` on returns NaN for all its positions.
            length: the context length in use, for scalings that follow it; None = one past the largest position of a call,
                or the trained length.
        """
        super().__init__()
        if form not in FORMS:
            raise Error("EINVAL", f"form: {form!r} is not one of {', '.join(FORMS)}", "form")
        each = dict(encoding) if isinstance(encoding, Mapping) else {"": encoding}
        if not each:
            raise Error("EINVAL", "encoding: is an empty dict, not encodings by type of layers", "encoding")
        for name, one in each.items():
            spec_of(one)
            if one.kind != "rope":
                raise Error("EUNSUPPORTED", f"encoding: {name or one.kind} does not rotate", "encoding")
        self.form, self.cached = form, whole(cached, "cached")
        if not 0 <= self.cached <= 1 << 31:
            raise Error("EINVAL", f"cached: is {cached}, not a number of positions, 0 .. 2^31", "cached")
        self.length = length_of(length)
        self._tables: dict[tuple[str, torch.dtype], tuple[Tensor, ...]] = {}
        self._specs = {name: spec_of(one) for name, one in each.items()}
        self._long = {name: depends_on_length(one) for name, one in each.items()}
        self._axes = {name: int(one.config["rope.axes"]) for name, one in each.items()}
        self._trained = {name: int(one.config["trained_length"]) for name, one in each.items()}

    @classmethod
    def from_config(
        cls, config: Any, *, profile: str | None = None, form: str | None = None, cached: int = 0, length: int | None = None
    ) -> Self:
        """The module of a model's config: a path, a dict or an object of transformers, as in Encoding.from_config.

        cached, length: as above.  form: None = that in which the model's own module in transformers returns cos and sin,
        which is made from the config and run to see.  Raises gyre.Error where the model has no such module, or one whose
        results are in another form.
        """
        groups = groups_of(config, profile)
        if not groups:
            raise Error("EUNSUPPORTED", "config: no layers of this model rotate", "config")
        specs = {spec_of(encoding) for encoding in groups.values()}
        one = next(iter(groups.values()))
        if form is not None:
            return cls(one if len(specs) == 1 else groups, form=form, cached=cached, length=length)
        own = own_module(config)
        if own is None:
            text = "form: transformers has no rotary module of this model to see it by: pass form=, or use gyre.torch.patch"
            raise Error("EUNSUPPORTED", text, "form")
        if len(specs) > 1 and not own.layer_type:
            text = f"config: {own.name} does not distinguish the layers {', '.join(groups)}: use gyre.torch.patch"
            raise Error("EUNSUPPORTED", text, "config")
        pairs = one.config["rope.dim"] // 2
        if own.form is None or own.channels != pairs * (2 if own.form in ("half", "interleaved") else 1):
            what = f"{own.channels} channels for {pairs} pairs"
            if own.sine_first:
                what = "the sine before the cosine"
            text = f"config: {own.name} returns {what}: use gyre.torch.patch"
            raise Error("EUNSUPPORTED", text, "config")
        return cls(one if len(specs) == 1 else groups, form=own.form, cached=cached, length=length)

    @property
    def encodings(self) -> dict[str, Encoding]:
        """The encodings by type of layers; one alone has the name ""."""
        return {name: encoding_of(spec) for name, spec in self._specs.items()}

    def extra_repr(self) -> str:
        shown = [f"{name + '=' if name else ''}{encoding_of(spec)!r}" for name, spec in self._specs.items()]
        return ", ".join(shown + [f"{name}={n}" for name, n in (("cached", self.cached), ("length", self.length)) if n])

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_tables": {}}

    def _length(self, name: str) -> int:
        """The context length in use, which only some scalings read."""
        return (self.length or _lengths.FOLLOWS) if self._long[name] else 0

    def _chosen(self, layer_type: str | None) -> str:
        name = "" if "" in self._specs else layer_type or ""
        if name not in self._specs:
            raise Error("EINVAL", f"layer_type: {layer_type!r} is not one of {', '.join(self._specs)}", "layer_type")
        return name

    def forward(self, x: Tensor, position_ids: Tensor, layer_type: str | None = None) -> Any:
        """
        Args:
            x: anything with the type and device of the results.
            position_ids: int32 or int64 [batch, tokens], or [axes, batch, tokens] for several axes.
            layer_type: where layers differ.

        Returns (cos, sin), [batch, tokens, dim], the attention factor included; one complex tensor in the form "complex".
        """
        name = self._chosen(layer_type)
        if not tensor(x, "x").is_floating_point():
            raise Error("EDTYPE", f"x: is of type {dtype_text(x)}, to which cos and sin cannot be rounded", "x")
        tensor(position_ids, "position_ids")
        if position_ids.is_meta:
            check_device(x=x, position_ids=position_ids)
        check_fake(x=x, position_ids=position_ids)
        check_angle_positions(position_ids, max(1, self._axes[name]))
        on_device = _device.takes(position_ids)
        found = None
        if self.cached and not (on_device or torch.compiler.is_compiling() or is_in_torch_dispatch_mode()):
            found = self._looked_up(name, position_ids, x.dtype)
        if found is None:
            given = position_ids, self._specs[name], self._length(name)
            cosine, sine = _lengths.cos_sin(*given, self.cached) if on_device else _cos_sin(*given)
            found = self._formed(cosine, sine, x.dtype)
        moved = tuple(one.to(x.device) for one in found)
        return moved[0] if self.form == "complex" else moved

    def _formed(self, cosine: Tensor, sine: Tensor, dtype: torch.dtype) -> tuple[Tensor, ...]:
        """The results, of one number for each pair."""
        if self.form == "complex":
            return (torch.complex(cosine, sine),)
        if self.form == "half":
            cosine, sine = (torch.cat((one, one), -1) for one in (cosine, sine))
        elif self.form == "interleaved":
            cosine, sine = (one.repeat_interleave(2, -1) for one in (cosine, sine))
        return cosine.to(dtype), sine.to(dtype)

    def _looked_up(self, name: str, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, ...] | None:
        """The results by the table; None where it does not have them."""
        axes = self._axes[name]
        if type(positions) is not Tensor or positions.is_meta:
            return None
        if axes > 1:
            if not (positions[1:] == positions[:1]).all():
                return None
            positions = positions[0]
        if positions.numel() == 0:
            return None
        least, most = (int(one) for one in torch.aminmax(positions))
        follows = self._long[name] and not self.length
        end = min(self.cached, self._trained[name]) if follows else self.cached
        if least < 0 or most >= end:
            return None
        table = self._tables.get((name, dtype))
        if table is None or len(table[0]) <= most:
            with torch.inference_mode(False):
                at = torch.arange(min(end, 1 << max(8, most.bit_length())), device="cpu")
                each = at.expand(axes, 1, -1) if axes > 1 else at[None]
                cosine, sine = _cos_sin(each, self._specs[name], self._trained[name] if follows else self._length(name))
                table = tuple(one[0] for one in self._formed(cosine, sine, dtype))
                self._tables[name, dtype] = table
        return tuple(one.index_select(0, positions.reshape(-1)).view(*positions.shape, -1) for one in table)
