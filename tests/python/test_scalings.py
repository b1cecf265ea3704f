"""Scalings as objects: each is its name and the options that act under it."""

import copy
import dataclasses
import inspect
import pickle

import gyre
import pytest
from test_refusals import refused

LISTS = {"short_factor": [1.0] * 16, "long_factor": [2.0] * 16}
# An object, and what the same encoding has by words.
SAME = [
    (gyre.Linear(factor=4), {"scaling": "linear", "factor": 4}),
    (gyre.Ntk(factor=4), {"scaling": "ntk", "factor": 4}),
    (gyre.DynamicNtk(factor=2, trained_length=2048), {"scaling": "dynamic", "factor": 2, "trained_length": 2048}),
    (gyre.ByParts(factor=4, trained_length=64, beta_fast=8), {"scaling": "by-parts", "factor": 4, "trained_length": 64, "beta_fast": 8}),
    (gyre.ByPartsPaper(factor=4, trained_length=64), {"scaling": "by-parts-paper", "factor": 4, "trained_length": 64}),
    (
        gyre.Yarn(factor=4, trained_length=8192, truncate=False, mscale=1, mscale_all_dim=0.7),
        {"scaling": "yarn", "factor": 4, "trained_length": 8192, "truncate": False, "mscale": 1, "mscale_all_dim": 0.7},
    ),
    (gyre.Llama3(factor=8, trained_length=8192, low_freq=2), {"scaling": "llama3", "factor": 8, "trained_length": 8192, "low_freq": 2}),
    (gyre.LongRope(trained_length=4096, start_tokens=3, **LISTS), {"scaling": "longrope", "trained_length": 4096, "start_tokens": 3, **LISTS}),
    (gyre.Proportional(factor=2, proportion=0.25), {"scaling": "proportional", "factor": 2, "proportion": 0.25}),
    (gyre.NtkMixed(factor=4, mixed_exponent=0.7), {"scaling": "ntk-mixed", "factor": 4, "mixed_exponent": 0.7}),
    (gyre.DynamicYarn(trained_length=1024, context_length=4096), {"scaling": "dynamic-yarn", "trained_length": 1024, "context_length": 4096}),
]


@pytest.mark.parametrize(("scaling", "words"), SAME, ids=lambda one: type(one).__name__)
def test_an_object_is_its_name_and_its_options(scaling: gyre.Scaling, words: dict) -> None:
    encoding = gyre.rope(32, scaling=scaling)
    assert encoding == gyre.rope(32, **words) and encoding != gyre.rope(32)
    assert encoding.config["rope.scaling"] == scaling.name == words["scaling"]
    again = eval(repr(scaling), vars(gyre))
    assert again == scaling and hash(again) == hash(scaling) and again is not scaling
    assert repr(scaling).startswith(f"{type(scaling).__name__}(") and scaling != type(scaling)(context_length=99)
    for made in (copy.deepcopy(scaling), pickle.loads(pickle.dumps(scaling))):
        assert made == scaling and gyre.rope(32, scaling=made) == encoding
    with pytest.raises(dataclasses.FrozenInstanceError):
        scaling.trained_length = 9
    assert scaling != gyre.Scaling() and scaling != "linear"


def test_there_is_a_class_for_each_scaling() -> None:
    field = next(one for one in gyre._gyre.config_fields() if one["name"] == "rope.scaling")
    kinds = [one for one in gyre.Scaling.__subclasses__()]
    assert sorted(one.name for one in kinds) == sorted(set(field["names"]) - {"none"})
    assert {type(one) for one, _ in SAME} == {one for one in kinds if not one.name.startswith("riflex")}
    assert all(getattr(gyre, one.__name__) is one and one.__name__ in gyre.__all__ for one in kinds)


def test_a_scaling_of_an_axis() -> None:
    pairs = {"axis_pairs": [4, 6, 6], "axes_layout": "axial"}
    riflex = gyre.Riflex(factor=2, repeats_at=9, trained_length=32)
    words = {"scaling": "riflex", "factor": 2, "repeats_at": 9, "trained_length": 32}
    assert gyre.rope(32, axis_scalings=[riflex, None, gyre.Ntk(factor=3)], **pairs) == gyre.rope(
        32, axis_scalings=[words, None, {"scaling": "ntk", "factor": 3}], **pairs
    )
    refused(lambda: gyre.rope(32, scaling=riflex), r"scaling: is Riflex\(factor=2, .*\), which an axis alone has", "scaling")
    refused(lambda: gyre.rope(32, axis_scalings=[gyre.Yarn(factor=2, beta_fast=9)], **pairs), "all axes share", "axis_scalings")


def test_an_option_is_given_once() -> None:
    yarn = gyre.Yarn(factor=4, trained_length=8192)
    refused(lambda: gyre.rope(32, scaling=yarn, factor=2), r"factor: is 2, but scaling, Yarn\(factor=4, trained_length=8192\), has it", "factor")
    refused(lambda: gyre.rope(32, scaling=gyre.Yarn(factor=0, trained_length=8)), "factor: is 0; None is the default", "factor")
    refused(lambda: gyre.rope(32, scaling=gyre.Yarn(factor=4)), "trained_length", "trained_length")
    assert gyre.rope(32, scaling=yarn, beta_fast=9) == gyre.rope(32, scaling=gyre.Yarn(factor=4, trained_length=8192, beta_fast=9))
    for name in ("low_freq", "zz"):
        with pytest.raises(TypeError, match=name):
            gyre.Yarn(**{name: 2})


def test_help_tells_types_ranges_and_defaults() -> None:
    assert "low_freq: a number from 0 on; None = 1" in inspect.getdoc(gyre.Llama3)
    told = inspect.getdoc(gyre.rope)
    assert 'far: "as-near", "clamped", "leaky"' in told and "base: a number above 1" in told
    assert 'beta_fast: a number from 0 on, with scaling "by-parts" or' in told
    signature = inspect.signature(gyre.rope).parameters
    assert signature["base"].default == 10000 and signature["scaling"].annotation == "str | Scaling"
    assert list(inspect.signature(gyre.deberta).parameters)[:3] == ["head_dim", "heads", "max_distance"]
    assert inspect.signature(gyre.deberta).parameters["max_distance"].default is inspect.Parameter.empty
    with pytest.raises(TypeError, match=r"shaw\(\) missing a required argument: 'max_distance'"):
        gyre.shaw(8)


def test_every_field_of_a_kind_is_an_option_of_its_function() -> None:
    """A field that config.def gets needs nothing here."""
    rows = gyre._gyre.config_fields()
    every = next(row for row in rows if row["name"] == "kind")["kinds"]
    not_options = {"rope.axes", "rope.diffusion.timed"}  # axis_pairs and dype_time say them
    for kind in every:
        function = getattr(gyre, kind.replace("-", "_"))
        options = inspect.signature(function).parameters
        fields = {row["name"] for row in rows if kind in row["kinds"] and row["kinds"] != every and "[" not in row["name"]}
        for name in fields - not_options:
            known = {gyre._options.option_of(name), name.rpartition(".")[2].removeprefix("slope_"), name.rpartition(".")[2].removeprefix("sinusoid_")}
            assert known & set(options), (kind, name)


def test_a_copy_without_the_scaling_loses_its_fields() -> None:
    plain = gyre.rope(32, trained_length=64)
    scaled = gyre.rope(32, scaling=gyre.Yarn(factor=4, trained_length=64, beta_fast=8))
    assert scaled.replace(rope__scaling="none") == plain
    assert gyre.rope(32, far="clamped", far_window=9).replace(rope__far="as-near") == gyre.rope(32)
    with pytest.raises(gyre.Error, match="rope.factor: is set, but has no effect where rope.scaling is none"):
        plain.replace(rope__factor=2)


def test_what_is_wrong_is_named() -> None:
    with pytest.raises(gyre.Error, match="scaling: .*YaRN"):
        gyre.rope(32, scaling="YaRN", factor=4, trained_length=64)
    with pytest.raises((gyre.Error, TypeError), match="factor: .*'4'") as caught:
        gyre.rope(32, scaling=gyre.Yarn(factor="4", trained_length=64))
    assert "('4'" not in str(caught.value)
