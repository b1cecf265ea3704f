"""Speed of the package against PyTorch: ratios of medians, both sides measured alternately within one run.

    python python/bench.py            1 and 2 threads
    python python/bench.py --quick    fewer repetitions
    python python/bench.py --only=rotations --no-compile --threads 1    one part

Needs torch; torch.compile needs a C++ compiler.  Peers: the formula of transformers (apply_rotary_pos_emb, cos and sin
computed before) in eager torch and under torch.compile; the complex product of Meta's Llama (freqs_cis computed before);
scaled_dot_product_attention with a dense bias.  A copy of query and key by torch shows what memory allows.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

sys.path = [folder for folder in sys.path if os.path.realpath(folder) != os.path.dirname(os.path.realpath(__file__))]

import torch  # noqa: E402

import gyre  # noqa: E402  the installed package, not its sources beside this file

HEADS, KV_HEADS, DIM, BASE = 32, 8, 128, 5e5


def once(call: Callable[[], Any], calls: int) -> float:
    start = time.perf_counter()
    for _ in range(calls):
        call()
    return (time.perf_counter() - start) / calls


def compare(name: str, ours: Callable[[], Any], peers: dict[str, Callable[[], Any]], turns: int) -> None:
    """Prints our median time, and for each peer the median of the ratios of the rounds."""
    everyone = {"gyre": ours, **peers}
    for call in everyone.values():
        for _ in range(3):
            call()
    calls = max(1, int(2e-3 / once(ours, 3)))
    times: dict[str, list[float]] = {who: [] for who in everyone}
    for _ in range(turns):
        for who, call in everyone.items():
            times[who].append(once(call, calls))
    parts = [f"{name:<34} {statistics.median(times['gyre']) * 1e6:9.2f} us"]
    for who in peers:
        ratio = statistics.median(p / g for p, g in zip(times[who], times["gyre"], strict=True))
        parts.append(f"{who} {ratio:.2f}x")
    print("   ".join(parts), flush=True)


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    return torch.cat((-x[..., x.shape[-1] // 2 :], x[..., : x.shape[-1] // 2]), dim=-1)


def transformers_formula(q: Any, k: Any, cos: Any, sin: Any) -> Any:
    cos, sin = cos.unsqueeze(1), sin.unsqueeze(1)
    return (q * cos) + (rotate_half(q) * sin), (k * cos) + (rotate_half(k) * sin)


def meta_formula(q: Any, k: Any, freqs_cis: Any) -> Any:
    """[batch, tokens, heads, channels], pairs side by side, in float32 as Meta's code does."""

    def one(x: torch.Tensor) -> torch.Tensor:
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * freqs_cis[None, :, None]).flatten(3).type_as(x)

    return one(q), one(k)


def rotations(tokens: int, dtype: torch.dtype, turns: int, compiled: Any) -> None:
    q, k = torch.randn(1, HEADS, tokens, DIM).to(dtype), torch.randn(1, KV_HEADS, tokens, DIM).to(dtype)
    half, interleaved = gyre.rope(DIM, base=BASE), gyre.rope(DIM, base=BASE, layout="interleaved")
    positions = torch.arange(tokens)
    cos, sin = (x[None].to(dtype) for x in half.cos_sin(positions))
    name = f"rotate {tokens} tokens {str(dtype).removeprefix('torch.')}"
    with torch.no_grad():
        peers = {"transformers": lambda: transformers_formula(q, k, cos, sin), "copy": lambda: (q.clone(), k.clone())}
        if compiled:
            peers["compiled"] = lambda: compiled(q, k, cos, sin)
        compare(name, lambda: half.rotate_pair(q, k, 0), peers, turns)
        freqs = torch.polar(torch.ones(tokens, DIM // 2), torch.outer(positions.float(), torch.tensor(half.frequencies()).float()))
        a, b = q.transpose(1, 2).contiguous(), k.transpose(1, 2).contiguous()
        compare(
            f"{name}, interleaved",
            lambda: interleaved.rotate_pair(a, b, 0, layout="bshd"),
            {"meta": lambda: meta_formula(a, b, freqs)},
            turns,
        )


def angles(tokens: int, turns: int) -> None:
    """cos and sin of a rotary module: looked up, computed exactly, and by the formula of transformers."""
    import gyre.torch

    encoding = gyre.rope(DIM, base=BASE)
    exact, cached = gyre.torch.RotaryEmbedding(encoding), gyre.torch.RotaryEmbedding(encoding, cached=1 << 17)
    frequencies = torch.from_numpy(encoding.frequencies()).float()[None, :, None]
    x, at = torch.zeros(1), torch.arange(100, 100 + tokens)[None]

    def formula() -> Any:
        both = (frequencies @ at[:, None, :].float()).transpose(1, 2)
        both = torch.cat((both, both), -1)
        return both.cos(), both.sin()

    with torch.no_grad():
        compare(f"cos and sin of {tokens} tokens, table", lambda: cached(x, at), {"exact": lambda: exact(x, at), "transformers": formula}, turns)


def latency(turns: int) -> None:
    encoding = gyre.rope(DIM, base=BASE)
    q, k = torch.randn(1, HEADS, 1, DIM), torch.randn(1, KV_HEADS, 1, DIM)
    cos, sin = (x[None] for x in encoding.cos_sin(torch.tensor([100])))
    eager = {"transformers": lambda: transformers_formula(q, k, cos, sin)}
    with torch.no_grad():
        compare("one token, torch", lambda: encoding.rotate_pair(q, k, 100), eager, turns)
        compare("one token, torch, in place", lambda: encoding.rotate_pair(q, k, 100, out=(q, k)), eager, turns)
    a, b = q.numpy(), k.numpy()
    compare("one token, numpy", lambda: encoding.rotate_pair(a, b, 100), {}, turns)


def attentions(tokens: int, turns: int) -> None:
    q, k, v = (torch.randn(1, 8, tokens, 64) for _ in range(3))
    causal = torch.ones(tokens, tokens).tril() > 0
    t5, table = gyre.t5(8), torch.randn(32, 8)
    for name, encoding, tables in (("ALiBi", gyre.alibi(8), None), ("T5", t5, table)):
        bias = torch.from_numpy(encoding.bias(tokens, tables=tables))[None]
        dense = bias.masked_fill(~causal, -torch.inf)
        with torch.no_grad():
            compare(
                f"attention {tokens} tokens, {name}",
                lambda: gyre.attention(q, k, v, encoding=encoding, tables=tables, causal=True),
                {"sdpa": lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=dense)},
                turns,
            )


MEMORY = """
import resource, sys, torch, gyre
q, k, v = (torch.randn(1, 8, {tokens}, 64) for _ in range(3))
gyre.set_threads(1); torch.set_num_threads(1)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
if sys.argv[1] == "gyre":
    gyre.attention(q, k, v, encoding=gyre.alibi(8), causal=True)
else:
    distance = torch.arange({tokens})[None] - torch.arange({tokens})[:, None]
    slopes = torch.tensor(gyre.alibi(8).slopes()).float()
    bias = torch.where(distance > 0, -torch.inf, slopes[:, None, None] * distance)[None]
    torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def memory(tokens: int) -> None:
    """Growth of the largest resident set during one call, the bias included, each in a separate process."""
    code = MEMORY.format(tokens=tokens)
    plain = {k: v for k, v in os.environ.items() if not k.startswith("MALLOC_")}
    took = [int(subprocess.check_output([sys.executable, "-c", code, who], env=plain)) for who in ("gyre", "sdpa")]
    ratio = took[1] / max(took[0], 1)
    print(f"memory of attention, {tokens} tokens, ALiBi: gyre {took[0] / 1024:.1f} MiB, sdpa {took[1] / 1024:.1f} MiB, {ratio:.1f}x")


def imports() -> None:
    """Milliseconds that import gyre takes after import numpy, the least of ten processes."""
    code = "import numpy, time; start = time.perf_counter(); import gyre; print((time.perf_counter() - start) * 1e3)"
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(10)]
    print(f"import gyre beyond numpy: {min(times):.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repetitions")
    parser.add_argument("--only", choices=["rotations", "angles", "attention"], help="one part of it")
    parser.add_argument("--no-compile", action="store_true", help="without torch.compile")
    parser.add_argument("--threads", type=int, nargs="*", default=[1, 2])
    options = parser.parse_args()
    turns = 7 if options.quick else 31
    if not os.environ.get("LD_PRELOAD") and os.environ.get("MALLOC_MMAP_MAX_") != "0":
        # Large results of both sides in memory that the process keeps, as a caching allocator would have it.  Without it,
        # most of the time of both would be the first touch of new pages.
        os.environ.update(MALLOC_MMAP_MAX_="0", MALLOC_TRIM_THRESHOLD_=str(1 << 40))
        os.execv(sys.executable, [sys.executable, *sys.argv])
    preload = os.environ.get("LD_PRELOAD", "")
    print(f"gyre {gyre.__version__}, torch {torch.__version__}, allocator {preload or 'of the C library, which keeps memory'}; peer / gyre of one run")
    if not options.only:
        imports()
        memory(4096)
        latency(turns)
    for threads in options.threads:
        print(f"{threads} threads")
        torch.set_num_threads(threads)
        gyre.set_threads(threads)
        compiled = None if options.no_compile else torch.compile(transformers_formula, dynamic=False)
        for tokens in (1, 32768) if options.only in (None, "angles") else ():
            angles(tokens, turns)
        for dtype in (torch.float32, torch.bfloat16) if options.only in (None, "rotations") else ():
            for tokens in (1, 512, 4096):
                rotations(tokens, dtype, turns, compiled)
        if options.only in (None, "attention"):
            attentions(2048, max(3, turns // 4))
    print(f"largest resident set: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
