"""The caches of all layers: each call against that of Cache in each of them, all or nothing."""

import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import Mock

import gyre
import numpy as np
import pytest

ROPE, WIDE = gyre.rope(8), gyre.rope(12, base=500.0)
LAYERS = [(ROPE, 2, 8, "float32"), None, (WIDE, 1, 12, "bfloat16"), (None, 3, 8, "q8")]  # the second has no cache
ENCODINGS = [layer[0] if layer else None for layer in LAYERS]


def filled(tokens: int = 40) -> list[gyre.Cache | None]:
    """Caches of different shapes, types and encodings, with as many tokens in sequence 0."""
    random = np.random.default_rng(3)
    made: list[gyre.Cache | None] = []
    for layer in LAYERS:
        made.append(None)
        if layer:
            encoding, heads, dim, dtype = layer
            made[-1] = cache = gyre.Cache(
                encoding, heads=heads, head_dim=dim, max_tokens=256, sequences=3, page_tokens=8, dtype=dtype
            )
            cache.append(*random.normal(size=(2, tokens, heads, dim)).astype("f4"))
    return made


def same(one: list[gyre.Cache | None], other: list[gyre.Cache | None]) -> None:
    """The same positions, and the same bits for a query, in every sequence of every layer."""
    for layer, a, b in zip(LAYERS, one, other, strict=True):
        if layer is None or a is None or b is None:
            assert layer is a is b is None
            continue
        q = np.random.default_rng(9).normal(size=(1, *layer[1:3])).astype("f4")
        for sequence in range(3):
            np.testing.assert_array_equal(a.positions(sequence), b.positions(sequence))
            if a.tokens(sequence):
                read = [cache.attention(q, [sequence], positions=100, causal=False) for cache in (a, b)]
                np.testing.assert_array_equal(*read)


def test_every_layer_is_edited() -> None:
    all_layers, alone = filled(), filled()
    caches = gyre.Caches(all_layers)
    assert list(caches.layers) == all_layers
    edits = [("fork", (0, 2), {}), ("remove", (3, 10), {"sequence": 2}), ("shift", (3, 27, -10), {"sequence": 2}),
             ("slide", (4, 16), {}), ("remove", (1, 2), {})]  # fmt: skip
    for name, args, named in edits:
        before = [cache.positions(s).tolist() for cache in alone if cache for s in range(3)]
        assert getattr(caches, name)(*args, **named) is None
        for cache in alone:
            if cache:
                getattr(cache, name)(*args, **named)
        assert before != [cache.positions(s).tolist() for cache in alone if cache for s in range(3)], name
        same(all_layers, alone)
    assert all_layers[0].tokens(2) == 30 and all_layers[0].positions(0).tolist() == [0, *range(3, 16)]


def test_all_layers_or_none() -> None:
    all_layers, alone = filled(), filled()
    caches = gyre.Caches(all_layers)
    for few in (all_layers, alone):
        few[2].remove(0, 1)
    calls = [("remove", (0, 2)), ("shift", (0, 2, 5)), ("slide", (1, 8))]
    for name, args in calls:
        with pytest.raises(gyre.Error, match="layer 2: sequence 0 has 39 tokens, but 40 in layer 0") as caught:
            getattr(caches, name)(*args)
        assert caught.value.status == "EINVAL"
        same(all_layers, alone)
    caches.fork(0, 1)  # which needs no equal numbers
    for cache in alone:
        if cache:
            cache.fork(0, 1)
    same(all_layers, alone)
    with pytest.raises(gyre.Error, match="layer 0: "):
        caches.fork(0, 3)
    with pytest.raises(gyre.Error, match="delta: "):
        caches.shift(0, 1, [1, 2])
    same(all_layers, alone)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "all"
    all_layers = filled()
    caches = gyre.Caches(all_layers)
    caches.fork(0, 1)
    caches.save(path)
    read = gyre.Caches.load(path, ENCODINGS)
    assert isinstance(read, gyre.Caches)
    same(all_layers, list(read.layers))
    read.remove(0, 5)
    assert read.layers[3].tokens() == 35 and all_layers[3].tokens() == 40
    with pytest.raises(gyre.Error, match="layer 2: ") as caught:
        gyre.Caches.load(path, [ROPE, None, ROPE, None])
    assert caught.value.status == "EINVAL"
    for wrong in (ENCODINGS[:3], [], 5, [ROPE, None, "rope", None]):
        with pytest.raises(gyre.Error) as caught:
            gyre.Caches.load(path, wrong)  # type: ignore[arg-type]
        assert caught.value.status == "EINVAL"
    with pytest.raises(gyre.FileError):
        gyre.Caches.load(tmp_path / "none", ENCODINGS)
    with pytest.raises(gyre.FileError):
        caches.save(tmp_path / "none" / "all")


def test_what_caches_refuse() -> None:
    first = filled()[0]
    with pytest.raises(gyre.Error, match="layers: two layers have the same cache"):
        gyre.Caches([first, None, first])
    with pytest.raises(gyre.Error, match=r"layers: layer 1 is not a gyre\.Cache or None"):
        gyre.Caches([first, ROPE])  # type: ignore[list-item]
    with pytest.raises(gyre.Error, match="layers: is 5, not a list"):
        gyre.Caches(5)  # type: ignore[arg-type]
    gyre.Caches([]).fork(0, 1)  # no layer, nothing to do


def test_an_object_that_pretends_its_class_is_refused() -> None:
    calls: list[tuple[str, Callable[[], object]]] = [
        (r"layers: layer 0 is not a gyre\.Cache", lambda: gyre.Caches([Mock(spec=gyre.Cache)])),
        (r"encoding: is not a gyre\.Encoding", lambda: gyre.Cache(Mock(spec=gyre.Encoding), heads=1, max_tokens=8)),
        (r"batch: is not a gyre\.Batch", lambda: gyre.Shards(Mock(spec=gyre.Batch), 2)),
    ]
    for text, call in calls:
        with pytest.raises(gyre.Error, match=text):
            call()


def test_an_exception_of_the_callers_list_stays(tmp_path: Path) -> None:
    def broken() -> Iterator[None]:
        yield None
        raise ValueError("from the generator")

    with pytest.raises(ValueError, match="^from the generator$"):
        gyre.Caches(broken())  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="^from the generator$"):
        gyre.Caches.load(tmp_path / "all", broken())  # type: ignore[arg-type]


def test_layers_of_unlike_axes_move_by_one_number() -> None:
    made = [gyre.Cache(encoding, heads=1, max_tokens=8) for encoding in (ROPE, gyre.rope(8, axis_pairs=[2, 2]))]
    for cache in made:
        cache.append(*np.ones((2, 4, 1, 8), "f4"))

    def axes() -> list[list[int]]:
        return [made[0].positions().tolist(), *(made[1].positions(axis=a).tolist() for a in range(2))]

    before = axes()
    for layers in (made, made[::-1]):
        for delta in ([1], [1, 2], [], np.array([1, 2])):
            with pytest.raises(gyre.Error, match="delta: is .*, not a whole number: layers have different numbers of axes"):
                gyre.Caches(layers).shift(0, 4, delta)  # type: ignore[arg-type]
            assert axes() == before
        gyre.Caches(layers).shift(0, 4, 3)
        before = [[position + 3 for position in axis] for axis in before]
        assert axes() == before


def test_a_layer_that_holds_the_caches_is_freed() -> None:
    class Layer(gyre.Cache):
        pass

    layer = Layer(None, heads=1, head_dim=8, max_tokens=8)
    layer.all = gyre.Caches([layer])  # type: ignore[attr-defined]
    still = weakref.ref(layer)
    gc.collect()
    kept = still()
    assert kept is not None and kept.all.layers == (kept,)  # type: ignore[attr-defined]
    del layer, kept
    gc.collect()
    assert still() is None


def test_other_threads_run_while_a_file_is_read(tmp_path: Path) -> None:
    cache = gyre.Cache(None, heads=8, head_dim=64, max_tokens=2048)
    cache.append(*np.ones((2, 2048, 8, 64), "f4"))
    one, every = tmp_path / "one", tmp_path / "every"
    cache.save(one)
    gyre.Caches([cache]).save(every)
    turns, stop = [0], threading.Event()

    def take_turns() -> None:
        while not stop.is_set():
            turns[0] += 1
            time.sleep(0)

    interval = sys.getswitchinterval()
    thread = threading.Thread(target=take_turns, daemon=True)
    thread.start()
    sys.setswitchinterval(1000)  # no thread is interrupted: the other one has a turn only where a call lets it
    try:
        for load in (lambda: gyre.Cache.load(one), lambda: gyre.Caches.load(every, [None])):
            before = turns[0]
            assert any(load() and turns[0] > before for _ in range(1000))
    finally:
        sys.setswitchinterval(interval)
        stop.set()
        thread.join()


def test_threads_that_share_layers_wait_for_each_other() -> None:
    all_layers = filled()
    both = [gyre.Caches(all_layers), gyre.Caches(all_layers[::-1])]

    def move(caches: gyre.Caches) -> None:
        for _ in range(300):
            caches.shift(0, 40, 1)

    threads = [threading.Thread(target=move, args=(caches,), daemon=True) for caches in both]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()
    for cache in all_layers:
        assert cache is None or cache.positions().tolist() == list(range(600, 640))
