"""Nothing leaks, threads may share an encoding, and a forked process computes."""

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import frameworks as fw
import gyre
import numpy as np
import pytest

ENCODING = gyre.rope(8)
CALLS = 100_000


def resident() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(call, calls: int) -> int:
    """Bytes that memory grows by over the calls.  Least of three rounds: a leak grows in each, another thread of the process
    does not."""
    least = 1 << 40
    for _ in range(3):
        for _ in range(calls // 10):
            call()
        gc.collect()
        before = resident()
        for _ in range(calls):
            call()
        gc.collect()
        least = min(least, resident() - before)
        if least < 1 << 18:
            break
    return least


def failing(call):
    def run() -> None:
        try:
            call()
        except gyre.Error:
            return
        raise AssertionError("passed")

    return run


X = np.ones((1, 2, 3, 8), "f4")


class Old:
    """Exports old capsules only."""

    def __dlpack__(self):
        return X.__dlpack__()

    def __dlpack_device__(self):
        return (1, 0)


class Broken(Old):
    def __dlpack__(self, **options):
        raise BufferError("no")


SHARDS = gyre.Shards(8, 2)
ROW = np.ones((1, 8), "f4")
CACHE = gyre.Cache(heads=2, head_dim=8, max_tokens=8)
CACHE.append(X, X)
NETWORK = np.ones((3, 4), "f4"), np.ones((2, 3), "f4")
CASES = {
    "rotate": lambda: ENCODING.rotate(X, 3),
    "pair": lambda: ENCODING.rotate_pair(X, X, 3),
    "old capsules": lambda: ENCODING.rotate(Old(), 3),
    "memoryview": lambda: ENCODING.rotate(memoryview(X), 3),
    "a capsule": lambda: ENCODING.rotate(X.__dlpack__(max_version=(1, 0)), 3),
    "cos_sin": lambda: ENCODING._cos_sin(np.arange(3)),
    "create": lambda: gyre.Encoding(kind="alibi", heads=2, **{"score.slopes": [1, 2]}),
    "list": failing(lambda: ENCODING.rotate([1])),
    "type": failing(lambda: ENCODING.rotate(X.astype("i4"))),
    "shape": failing(lambda: ENCODING.rotate(X[..., :6])),
    "positions": failing(lambda: ENCODING.rotate(X, np.arange(9))),
    "position": failing(lambda: ENCODING.rotate(X, 2**40)),
    "out": failing(lambda: ENCODING.rotate(X, out=X.astype("f8"))),
    "broken": failing(lambda: ENCODING.rotate(Broken())),
    "field": failing(lambda: gyre.Encoding(kind="rope", head_dim=8, **{"rope.short_factor": [1, 2]})),
    "attention": lambda: gyre._gyre.attention(X, X, X, encoding=ENCODING, lse=True),
    "attention with a mask": lambda: gyre.attention(X, X, X, mask=np.ones((3, 3), bool), window=(2, None)),
    "no attention with a window": failing(lambda: gyre.attention(X, X, X, window=(1, 2, 3))),
    "attention of a new cache": lambda: gyre.Cache(ENCODING, heads=2, max_tokens=4).shift(0, 0, [1], sequence=0),
    "no attention of a new cache": failing(lambda: gyre.Cache(ENCODING, heads=2, max_tokens=4, keys="zz")),
    "batch": lambda: gyre.Batch([3, [1, gyre.Grid(1, 2, 2)]], cached=[1, 0], axes=3).arguments,
    "no batch": failing(lambda: gyre.Batch([3], cached=[1, 2])),
    "shards": lambda: gyre.Shards(8, 2)[1].take(ROW),
    "join": lambda: SHARDS.join([ROW[:, :4], ROW[:, 4:]]),
    "put": lambda: SHARDS[0].put(ROW[:, :4], ROW.copy()),
    "no take": failing(lambda: SHARDS[0].take(ROW[:, :7])),
    "no join": failing(lambda: SHARDS.join([ROW[:, :4], ROW])),
    "gates": lambda: gyre.gate_sums_gradient(gyre.gate_sums(X[..., 0])),
    "no gates": failing(lambda: gyre.gate_sums(X[..., 0], initial=np.zeros((1, 3)))),
    "cached attention": lambda: [CACHE.contextual_attention(X, X[0, 0], lse=True), CACHE.adaptive_attention(X, *NETWORK, length=9)],
    "no cached attention": failing(lambda: CACHE.adaptive_attention(X, *NETWORK, sequences=[1])),
    "no attention": failing(lambda: gyre._gyre.attention(X, X, X[..., :1, :], encoding=ENCODING)),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_memory_is_flat(case: str) -> None:
    slow = "attention" in case or case in ("create", "batch", "no batch", "shards", "no take", "join", "put", "no join")
    calls = CALLS // 10 if slow else CALLS
    assert growth(CASES[case], calls) < 1 << 20


@pytest.mark.slow
@pytest.mark.parametrize("kind", [k for k in fw.KINDS if k.framework in ("torch", "jax")], ids=str)
def test_memory_is_flat_with_frameworks(kind: fw.Kind) -> None:
    x = fw.make(kind, np.ones((1, 2, 3, 8)))
    calls = CALLS if kind.framework == "torch" else CALLS // 50
    assert growth(lambda: ENCODING.rotate(x, 3), calls) < 1 << 20


def test_buffers_of_results_are_freed_with_their_arrays() -> None:
    out = gyre.attention(X, X, X[..., :4])
    view = out[0]
    del out
    gc.collect()
    np.testing.assert_allclose(view, 1)
    capsule = gyre.Encoding(kind="alibi", heads=2).bias(2).base
    assert capsule is not None


def test_threads_share_an_encoding() -> None:
    x = np.random.default_rng(0).standard_normal((2, 8, 512, 64)).astype("f4")
    encoding = gyre.rope(64)
    want = encoding.rotate(x, 1000)
    wrong = []

    def work() -> None:
        for _ in range(20):
            if not np.array_equal(encoding.rotate(x, 1000), want):
                wrong.append(1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_a_cache_is_used_by_one_thread_at_a_time() -> None:
    cache = gyre.Cache(ENCODING, heads=2, max_tokens=8192)
    k = X[0].transpose(1, 0, 2)

    def work() -> None:
        for _ in range(100):
            cache.append(k, k)
            cache.attention(k)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert cache.tokens() == 4 * 100 * 3


def test_the_number_of_threads_changes_no_bit() -> None:
    x = np.random.default_rng(0).standard_normal((1, 8, 2048, 64)).astype("f4")
    encoding = gyre.rope(64)
    results = []
    for threads in (1, 3, 0):
        gyre.set_threads(threads)
        if threads:
            assert gyre.get_threads() == threads
        results.append((encoding.rotate(x), gyre.attention(x[:, :, :256], x, x, encoding=encoding)))
    for rotated, attended in results[1:]:
        np.testing.assert_array_equal(rotated, results[0][0])
        np.testing.assert_array_equal(attended, results[0][1])


FORK = """
import os, gyre, numpy as np
gyre.set_threads(2)
x = np.ones((1, 8, 2048, 64), "f4")
want = gyre.rope(64).rotate(x)
child = os.fork()
if child == 0:
    os._exit(0 if np.array_equal(gyre.rope(64).rotate(x), want) and gyre.get_threads() == 2 else 1)
raise SystemExit(os.waitpid(child, 0)[1])
"""


def test_a_forked_process_computes() -> None:
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)


FORK_IN_USE = """
import os, threading, time, gyre, numpy as np
x = np.ones((1, 8, 4096, 64), "f4")
used, free = (gyre.Cache(gyre.rope(64), heads=8, max_tokens=4096) for _ in range(2))
for cache in (used, free):
    cache.append(x, x)
thread = threading.Thread(target=lambda: used.attention(x))
thread.start()
time.sleep(0.1)
child = os.fork()
if child == 0:
    right = free.tokens() == 4096 and free.attention(x[:, :, :1]).shape == (1, 8, 1, 64)
    try:
        right &= used.tokens() == 4096  # the call of the thread had ended
    except gyre.Error as why:
        right &= why.field == "cache" and "when this process was forked" in why.text
    os._exit(0 if right else 1)
status = os.waitpid(child, 0)[1]
thread.join()
raise SystemExit(status or used.tokens() != 4096)
"""


def test_a_process_forked_while_a_cache_is_in_use() -> None:
    subprocess.run([sys.executable, "-c", FORK_IN_USE], check=True, timeout=120)


# Saving in a loop holds the lock nearly always, so one of a few children is forked while a thread holds it.
FORK_WHILE_SAVED = """
import os, signal, sys, threading, gyre, numpy as np
used, free = (gyre.Cache(None, heads=8, head_dim=128, max_tokens=4096) for _ in range(2))
used.append(*np.zeros((2, 4096, 8, 128), "f4"))
stop = threading.Event()
def save():
    while not stop.is_set():
        used.save(os.path.join(sys.argv[1], "cache"))
thread = threading.Thread(target=save)
thread.start()
for attempt in range(100):
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        try:
            used.tokens()
            os._exit(2)  # it was between two files
        except gyre.Error:
            pass
        try:
            gyre.Caches([free, used])
        except gyre.Error as why:
            os._exit(0 if why.field == "cache" and "when this process was forked" in why.text else 1)
        os._exit(1)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status != 2:
        break
stop.set()
thread.join()
raise SystemExit(status)
"""


def test_caches_of_a_cache_in_use_when_the_process_was_forked(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORK_WHILE_SAVED, str(tmp_path)], check=True, timeout=120)
