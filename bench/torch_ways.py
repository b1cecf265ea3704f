"""What bench/against compares Gyre with in PyTorch: the cases, their formulas, and a child process that runs one of them."""
import dataclasses
import json
import math
import os
import resource
import sys
import time
import typing

import torch_relative

HEADS, CHANNELS = 12, 64          # of gyre bench encodings
MANY, FEW, WIDE = 32, 8, 128      # query heads, key heads and channels of gyre bench attention
ROW_BYTES, ROW_IN = 128 << 20, 4096  # of gyre bench products, one row
TRY_SECONDS = 0.02                # of calls timed together


@dataclasses.dataclass
class Case:
    """command: arguments of gyre bench.  row: keys and values of the row of its JSON; ns: its time in nanoseconds.  ways:
    label -> function(torch, tokens) that makes inputs and what a model makes once, and returns the call that is timed.
    formula: function(torch, way, label) = the largest error of a way on small inputs, from the formula in double."""
    name: str
    command: tuple
    row: dict
    ways: dict
    ns: typing.Callable = lambda row: row["ns"]
    goal: float = 0  # least ratio of the best way's time to Gyre's; 0 = none
    formula: typing.Callable | None = None


# -- attention with a bias for each head and distance ---------------------------------------------------------------------
def slopes(heads):
    """ALiBi's geometric sequence; if the heads are not a power of two, every other slope of the next sequence follows."""
    def sequence(count):
        return [2 ** (-8 * (i + 1) / count) for i in range(count)]
    whole = 1 << (heads.bit_length() - 1)
    return sequence(whole) + sequence(2 * whole)[0::2][: heads - whole]


def random(torch, *shape, dtype=None):
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape))).to(dtype or torch.float32)


def inputs(torch, n):
    return [random(torch, 1, HEADS, n, CHANNELS) * (1 + i / 8) for i in range(3)]


def distances(torch, n):
    places = torch.arange(n)
    return places[:, None] - places[None, :]


def bias_table(torch, n, kind):
    """[heads][n]: the bias of a key so many tokens before the query.  (T5 learns one for each of 32 buckets.)"""
    if kind == "alibi":
        return -torch.tensor(slopes(HEADS))[:, None] * torch.arange(n).float()
    return random(torch, HEADS, 32)[:, torch.log2(torch.arange(n) + 1.0).long().clamp(max=31)]


def made_bias(torch, n, kind):
    far = distances(torch, n)
    return bias_table(torch, n, kind)[:, far.clamp(min=0)].masked_fill(far < 0, -math.inf)


def way_sdpa(kind, gradient=False):
    def make(torch, n):
        q, k, v = inputs(torch, n)
        bias = made_bias(torch, n, kind)[None] if kind else None

        def forward():
            return torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias, is_causal=bias is None)
        if not gradient:
            return forward
        for x in (q, k, v):
            x.requires_grad_(True)
        out = forward()
        seed = torch.ones_like(out)
        return lambda: torch.autograd.grad(out, (q, k, v), seed, retain_graph=True)
    return make


def way_eager(kind):
    """As models write it: products, the bias added, a softmax."""
    def make(torch, n):
        q, k, v = inputs(torch, n)
        bias, scale = made_bias(torch, n, kind), 1 / math.sqrt(CHANNELS)
        return lambda: torch.softmax(q @ k.transpose(-1, -2) * scale + bias, -1) @ v
    return make


def way_flex(kind):
    """FlexAttention, compiled by Inductor for this length, which takes a minute or two."""
    def make(torch, n):
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention
        q, k, v = inputs(torch, n)
        table, slope = bias_table(torch, n, kind), torch.tensor(slopes(HEADS))
        blocks = create_block_mask(lambda _b, _h, i, j: i >= j, None, None, n, n, device="cpu")

        def add(score, _b, h, i, j):
            return score - slope[h] * (i - j) if kind == "alibi" else score + table[h, (i - j).clamp(min=0)]
        compiled = torch.compile(flex_attention, dynamic=False)

        def call():
            return compiled(q, k, v, score_mod=add, block_mask=blocks)
        call()
        call.is_compiled = True
        return call
    return make


def attention_error(kind, n=24):
    """Of a way, from softmax(q k / sqrt(d) + bias) v in double, one query at a time."""
    def error(torch, make, _label):
        import numpy as np
        q, k, v = [x[0].double().numpy() for x in inputs(torch, n)]
        table = bias_table(torch, n, kind).double().numpy() if kind else np.zeros((HEADS, n))
        got = make(torch, n)().detach()[0].numpy()
        worst = 0.0
        for h in range(HEADS):
            for i in range(n):
                scores = k[h, : i + 1] @ q[h, i] / math.sqrt(CHANNELS) + table[h, i::-1][: i + 1]
                weights = np.exp(scores - scores.max())
                worst = max(worst, abs(weights @ v[h, : i + 1] / weights.sum() - got[h, i]).max())
        return float(worst)
    return error


# -- attention of gyre bench attention ------------------------------------------------------------------------------------
def way_grouped(n, queries, dtype):
    """Queries of 32 heads over keys and values of 8."""
    def make(torch, _size):
        of = getattr(torch, dtype)
        q = random(torch, 1, MANY, queries, WIDE, dtype=of)
        k, v = [random(torch, 1, FEW, n, WIDE, dtype=of) for _ in range(2)]
        causal = queries > 1
        return lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    return make


# -- products and rotation ------------------------------------------------------------------------------------------------
def way_linear(rows, out, width, dtype="float32"):
    def make(torch, _size):
        of = getattr(torch, dtype)
        x, w = random(torch, rows, width, dtype=of), random(torch, out, width, dtype=of)
        return lambda: torch.nn.functional.linear(x, w)
    return make


def way_rotate(dtype):
    """As transformers: x cos + rotate_half(x) sin, with cos and sin of all positions made beforehand."""
    def make(torch, n):
        x = random(torch, 1, n, MANY, WIDE, dtype=getattr(torch, dtype))
        angle = torch.arange(n)[:, None] * 10000 ** (-torch.arange(0, WIDE, 2) / WIDE)[None]
        both = torch.cat((angle, angle), -1)[None, :, None]
        cos, sin = both.cos().to(x.dtype), both.sin().to(x.dtype)

        def call():
            first, second = x[..., : WIDE // 2], x[..., WIDE // 2:]
            return x * cos + torch.cat((-second, first), -1) * sin
        call.parts = x, angle
        return call
    return make


def rotation_error(torch, make, _label):
    """From the rotation of each pair in double: f32 alone, because 16-bit angles cost torch a percent."""
    call = make(torch, 8)
    x, angle = [part.double() for part in call.parts]
    a, b = x[..., : WIDE // 2], x[..., WIDE // 2:]
    c, s = angle.cos()[None, :, None], angle.sin()[None, :, None]
    want = torch.cat((a * c - b * s, b * c + a * s), -1)
    return float((call().double() - want).abs().max()) if x.shape and call.parts[0].dtype == torch.float32 else 0.0


# -- a whole model ----------------------------------------------------------------------------------------------------------
LLAMA = {"vocab_size": 49152, "num_hidden_layers": 30, "hidden_size": 576, "num_attention_heads": 9,
         "num_key_value_heads": 3, "intermediate_size": 1536}  # smollm2 of gyre bench model


def way_llama(tokens, decodes):
    """transformers' Llama in float32 with random weights; Gyre's are f16."""
    def make(torch, _size):
        from transformers import LlamaConfig, LlamaForCausalLM
        config = LlamaConfig(**LLAMA, head_dim=64, max_position_embeddings=tokens + 1, rope_theta=100000.0,
                             tie_word_embeddings=True, attn_implementation="sdpa")
        model = LlamaForCausalLM(config).eval().to(torch.float32)
        ids = torch.arange(tokens)[None] * 7919 % config.vocab_size
        if not decodes:
            return lambda: model(ids, use_cache=True, logits_to_keep=1)
        cache = model(ids, use_cache=True, logits_to_keep=1).past_key_values

        def decode():
            model(ids[:, :1], past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache.crop(tokens)
        return decode
    return make


# -- the cases --------------------------------------------------------------------------------------------------------------
def product_cases():
    for rows, out, width in ((64, 768, 768), (512, 768, 768), (512, 2048, 768), (512, 4096, 4096)):
        name = f"nt-{rows}-{out}x{width}"
        yield Case(f"linear f32 {rows}x{out}x{width}", ("products", "--only", name), {"name": name},
                   {"linear": way_linear(rows, out, width)}, goal=1.0)
    for ours, theirs, size in (("f32", "float32", 4), ("bf16", "bfloat16", 2)):
        yield Case(f"one row {ours}, 128 MiB", ("products", "--only", f"row-{ours}"), {"name": f"row-{ours}"},
                   {"linear": way_linear(1, ROW_BYTES // size // ROW_IN, ROW_IN, theirs)})


def attention_cases():
    for n in (512, 2048):
        for ours, theirs in (("f32", "float32"), ("bf16", "bfloat16")):
            name = f"prefill-{n}-{ours}"
            yield Case(f"prefill {n} {ours}", ("attention", "--only", name), {"name": name}, {"sdpa": way_grouped(n, n, theirs)})
    for ours, theirs in (("f32", "float32"), ("bf16", "bfloat16"), ("f16", "float16")):
        name = f"decode-4096-{ours}-rotated"
        yield Case(f"decode 4096 {ours}", ("attention", "--only", name), {"name": name}, {"sdpa": way_grouped(4096, 1, theirs)})


def scheme_cases():
    n = 2048
    of = ("encodings", "--tokens", str(n), "--heads", str(HEADS), "--head-dim", str(CHANNELS), "--schemes")
    for kind, goal in (("alibi", 2.2), ("t5", 0)):
        ways = {"sdpa": way_sdpa(kind), "eager": way_eager(kind), "flex": way_flex(kind)}
        yield Case(f"{kind} causal {n}", (*of, f"{kind}-causal"), {"scheme": f"{kind}-causal"}, ways, lambda r: 1e6 * r["ms"],
                   goal, attention_error(kind))
    for kind, scheme, tokens, goal in (("deberta", "deberta-v3", 1024, 2.5), ("bert", "bert-relative-key-query", 2048, 2.0)):
        ways = {label: torch_relative.way_of(kind, label) for label in torch_relative.WAYS[kind]}
        size = ("encodings", "--tokens", str(tokens), *of[3:])
        yield Case(f"{scheme} {tokens}", (*size, scheme), {"scheme": scheme}, ways, lambda r: 1e6 * r["ms"], goal,
                   lambda torch, _make, label, kind=kind: torch_relative.error_of(kind, label)(torch, _make))
    yield Case(f"causal gradient {n}", (*of, "alibi-causal", "--gradient"), {"scheme": "alibi-causal"},
               {"sdpa": way_sdpa(None, True)}, lambda r: 1e6 * r["base_ms"])
    yield Case(f"alibi gradient {n}", (*of, "alibi-causal", "--gradient"), {"scheme": "alibi-causal"},
               {"sdpa": way_sdpa("alibi", True)}, lambda r: 1e6 * r["ms"])


def other_cases():
    for ours, theirs in (("f32", "float32"), ("bf16", "bfloat16")):
        yield Case(f"rotate 4096 {ours}", ("rotate",), {"dtype": ours, "layout": "half", "tokens": 4096},
                   {"eager": way_rotate(theirs)}, formula=rotation_error)
    for n in (512,):
        of = ("model", "--shape", "smollm2", "--tokens", str(n))
        yield Case(f"llama prefill {n}", of, {"case": "prefill"}, {"transformers": way_llama(n, False)}, goal=1.5)
        yield Case(f"llama decode {n}", of, {"case": "decode"}, {"transformers": way_llama(n, True)}, goal=1.5)


CASES = [*product_cases(), *attention_cases(), *scheme_cases(), *other_cases()]


def tokens_of(case):
    """The last number of the name, if it is one: that of the command."""
    numbers = [int(word) for word in case.name.split() if word.isdigit()]
    return numbers[-1] if numbers else 0


# -- a child: one way in one malloc mode ------------------------------------------------------------------------------------
def resident(field):
    with open("/proc/self/status", encoding="ascii") as file:
        return next((1024 * int(line.split()[1]) for line in file if line.startswith(field + ":")), 0)


def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def child(name, label, threads):
    """Answers each line of standard input with the nanoseconds of a call."""
    import torch
    torch.set_num_threads(threads)
    case = next(case for case in CASES if case.name == name)
    with torch.inference_mode(mode="gradient" not in name):
        try:
            call = case.ways[label](torch, tokens_of(case))
        except ImportError as missing:
            sys.exit(f"against: {missing}")
        before = resident("VmRSS")
        begun = time.perf_counter()
        call()
        times = 1 + int(TRY_SECONDS / (time.perf_counter() - begun))
        extra = None if hasattr(call, "is_compiled") else max(0, peak() - before)  # a compiler's peak is not the call's
        print(json.dumps({"torch": torch.__version__, "extra_bytes": extra}), flush=True)
        for _ in sys.stdin:
            call()  # as gyre bench: an untimed call finds the caches as the timed ones do
            begun = time.perf_counter()
            for _ in range(times):
                call()
            print(1e9 * (time.perf_counter() - begun) / times, flush=True)
    return 0


def environment(mode, threads):
    limit = {name: str(threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
    return {**os.environ, **limit, "OMP_WAIT_POLICY": "passive", **mode}
