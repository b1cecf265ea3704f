"""score_mod and mask_mod in torch's FlexAttention, and attn_implementation="gyre" in transformers, which are the judges."""

from __future__ import annotations

import math
from typing import Any

import gyre
import gyre.torch as gt
import pytest
import torch
import transformers
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

HEADS = 4


def table_of(encoding: gyre.Encoding) -> Tensor | None:
    torch.manual_seed(3)
    shapes = encoding.table_shapes
    return torch.rand(shapes["bias"][2:]) + 0.25 if shapes else None


ENCODINGS = {
    "alibi": gyre.alibi(HEADS),
    "two slopes": gyre.alibi(HEADS, slopes=[0.5, 0.25, 0.1, 0.0], slopes_after=[0.3, 1.0, 0.2, 0.1]),
    "before the scale": gyre.alibi(HEADS, head_dim=16, before_scale=True),
    "stretched": gyre.alibi(HEADS, scaling="ntk", factor=4.0),
    "t5": gyre.t5(HEADS),
    "t5 both": gyre.t5(HEADS, bidirectional=True, buckets=8, max_distance=16),
    "kerple": gyre.kerple(HEADS),
    "kerple power": gyre.kerple(HEADS, decay="power"),
    "fire": gyre.fire(HEADS, hidden_units=5),
}


def qkv(queries: int, keys: int, batch: int = 2) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    return torch.randn(batch, HEADS, queries, 16), torch.randn(batch, HEADS, keys, 16), torch.randn(batch, HEADS, keys, 16)


def plain(q: Tensor, k: Tensor, v: Tensor, add: Any, mask: Any) -> Tensor:
    """The formula of FlexAttention, over all scores at once; torch has no gradient of FlexAttention on the CPU."""
    scores = q @ k.mT * q.shape[-1] ** -0.5
    at = torch.meshgrid(*map(torch.arange, scores.shape), indexing="ij")
    return torch.where(mask(*at), add(scores, *at), -math.inf).softmax(-1) @ v


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("name", ENCODINGS)
def test_score_mod_is_attention(name: str, causal: bool) -> None:
    """Values and gradients, of the table too, at positions of batch rows."""
    encoding, (q, k, v) = ENCODINGS[name], qkv(7, 9)
    at, to = torch.randint(0, 300, (2, 7)), torch.randint(0, 300, (2, 9))
    at[:, 0] = 299
    to[:, 0] = 0  # each query sees a key
    weights, found = torch.randn(2, HEADS, 7, 16), []
    for way in ("flex", "gyre"):
        each = [x.clone().requires_grad_() for x in (q, k, v)]
        table = table_of(encoding)
        if table is not None:
            each.append(table.requires_grad_())
        if way == "flex":
            mods = {
                "add": gt.score_mod(encoding, positions=at, key_positions=to, tables=table),
                "mask": gt.mask_mod(causal=causal, positions=at, key_positions=to),
            }
            out = plain(*each[:3], **mods)
            with torch.no_grad():
                blocks = create_block_mask(mods["mask"], 2, HEADS, 7, 9, device="cpu")
                theirs = flex_attention(q, k, v, score_mod=mods["add"], block_mask=blocks)
            torch.testing.assert_close(out.detach(), theirs, rtol=1e-4, atol=1e-5)
        else:
            out = gt.attention(*each[:3], encoding=encoding, positions=at, key_positions=to, causal=causal, tables=table)
        (out * weights).sum().backward()
        found.append([out.detach(), *(x.grad for x in each)])
    for ours, core in zip(*found, strict=True):
        torch.testing.assert_close(ours, core, rtol=1e-4, atol=1e-5 * max(1, float(core.abs().max())))


@pytest.mark.parametrize("softcap", [None, 2.0])
def test_positions_that_are_counted(softcap: float | None) -> None:
    q, k, v = qkv(3, 8)
    mods = {"positions": 5}
    out = flex_attention(
        q, k, v,
        score_mod=gt.score_mod(ENCODINGS["alibi"], softcap=softcap, **mods),
        block_mask=create_block_mask(gt.mask_mod(causal=True, **mods), None, None, 3, 8, device="cpu"),
    )  # fmt: skip
    want = gt.attention(q, k, v, encoding=ENCODINGS["alibi"], causal=True, softcap=softcap)
    torch.testing.assert_close(out, want, rtol=1e-5, atol=1e-6)


def test_packed_batch() -> None:
    """Sequences of 5, 1 and 6 keys, and of 2, 1 and 6 queries."""
    queries, keys = torch.tensor([0, 2, 3, 9]), torch.tensor([0, 5, 6, 12], dtype=torch.int32)
    q, k, v = (x[0] for x in qkv(9, 12, 1))
    starts: dict[str, Any] = {"query_starts": queries, "key_starts": keys}
    add = gt.score_mod(ENCODINGS["t5"], tables=table_of(ENCODINGS["t5"]), **starts)
    blocks = create_block_mask(gt.mask_mod(causal=True, **starts), None, None, 9, 12, device="cpu")
    out = flex_attention(q[None], k[None], v[None], score_mod=add, block_mask=blocks)[0]
    given = [x.transpose(0, 1) for x in (q, k, v)]
    tables = table_of(ENCODINGS["t5"])
    want = gt.attention(*given, encoding=ENCODINGS["t5"], causal=True, tables=tables, query_starts=queries.int(), key_starts=keys)
    torch.testing.assert_close(out, want.transpose(0, 1), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        {"causal": True},
        {"window": 3},
        {"window": 3, "causal": True},
        {"window": (4, 2)},
        {"window": (None, 2)},
        {"window": (2, None)},
        {"window": 0},
        {"window": 2, "causal": True, "sinks": 2},
        {"window": 2, "sinks": 3},
        {"key_first": torch.tensor([2, 0]), "key_end": torch.tensor([9, 5]), "positions": 3},
        {},
    ],
    ids=str,
)
def test_mask_mod_is_attention(call: dict[str, Any]) -> None:
    """A query sees a key where attention gives it a weight."""
    q, k, v = qkv(6, 9)
    at = {"positions": 3, **call}
    shape, grids = (2, 1, 6, 9), torch.meshgrid(*map(torch.arange, (2, 1, 6, 9)), indexing="ij")
    seen = gt.mask_mod(**at)(*grids).expand(shape)
    _, weights = gyre.attention(q.numpy(), k.numpy(), v.numpy(), weights=True, **{n: x.numpy() if isinstance(x, Tensor) else x for n, x in at.items()})
    assert torch.equal(seen[:, 0], torch.from_numpy(weights[:, 0] > 0))


def test_compiled() -> None:
    """Inductor's kernel for the processor, forward."""
    if "AVX2" not in torch.backends.cpu.get_cpu_capability() and "AVX512" not in torch.backends.cpu.get_cpu_capability():
        pytest.fail("FlexAttention compiles for processors with AVX2 or AVX-512 alone")
    q, k, v = qkv(128, 128, 1)
    encoding = ENCODINGS["kerple"]
    add, mask = gt.score_mod(encoding, tables=table_of(encoding)), gt.mask_mod(causal=True, window=50, sinks=2)
    blocks = create_block_mask(mask, None, None, 128, 128, device="cpu")
    with torch.no_grad():
        out = torch.compile(flex_attention)(q, k, v, score_mod=add, block_mask=blocks)
    want = gt.attention(q, k, v, encoding=encoding, causal=True, window=50, sinks=2, tables=table_of(encoding))
    torch.testing.assert_close(out, want, rtol=1e-4, atol=1e-5)


AT = torch.arange(4)
REFUSED: dict[str, tuple[str, str, Any]] = {
    "rope": ("EUNSUPPORTED", "rope adds no bias to scores", lambda: gt.score_mod(gyre.rope(16))),
    "sandwich": ("EUNSUPPORTED", "on the processor alone", lambda: gt.score_mod(gyre.sandwich(4))),
    "no table": ("EINVAL", "tables.bias: missing", lambda: gt.score_mod(ENCODINGS["t5"])),
    "half packed": ("EINVAL", "key_starts: missing", lambda: gt.mask_mod(query_starts=AT)),
    "starts": ("ESHAPE", "key_starts: has 3 numbers", lambda: gt.mask_mod(query_starts=AT, key_starts=AT[:3])),
    "order": ("EINVAL", "causal: is 'order'", lambda: gt.mask_mod(causal="order")),  # type: ignore[arg-type]
    "window": ("EINVAL", "window: is -1", lambda: gt.mask_mod(window=-1)),
    "floats": ("EDTYPE", "positions: is of type float32", lambda: gt.mask_mod(positions=AT.float())),
    "axes": ("ESHAPE", "positions: has 3 axes", lambda: gt.mask_mod(positions=AT[None, None])),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    status, text, call = REFUSED[name]
    with pytest.raises(gyre.Error, match=text) as caught:
        call()
    assert caught.value.status == status


# -- transformers --

SMALL: dict[str, Any] = {
    "vocab_size": 90, "hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
}  # fmt: skip
MODELS: dict[str, Any] = {
    "llama": lambda: transformers.LlamaConfig(**SMALL),
    "gemma2": lambda: transformers.Gemma2Config(**SMALL, head_dim=16, sliding_window=6, attn_logit_softcapping=2.0),
    "mistral": lambda: transformers.MistralConfig(**SMALL, sliding_window=6),
    "gpt-oss": lambda: transformers.GptOssConfig(**SMALL, head_dim=16, sliding_window=6, num_local_experts=2, num_experts_per_tok=1),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_of_transformers(name: str) -> None:
    """Logits with left padding, greedy tokens from a cache, and gradients, as eager attention gives them."""
    config = MODELS[name]()
    torch.manual_seed(2)
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    ids = torch.randint(3, 90, (2, 11))
    seen = torch.ones_like(ids)
    seen[0, :4] = 0
    found = []
    for way in ("eager", gt.register_attention()):
        model.set_attn_implementation(way)
        model.zero_grad()
        logits = model(ids, attention_mask=seen).logits[seen.bool()]
        logits.logsumexp(-1).sum().backward()
        grads = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        tokens = model.generate(ids, attention_mask=seen, max_new_tokens=6, do_sample=False)
        found.append((logits.detach(), grads, tokens))
    (a, da, ta), (b, db, tb) = found
    torch.testing.assert_close(b, a, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(db, da, rtol=1e-3, atol=1e-4 * float(da.abs().max()))
    assert torch.equal(ta, tb)


def test_dropout_and_weights() -> None:
    """Training draws other weights in each call; output_attentions gives rows that add up to 1."""
    config = transformers.LlamaConfig(**SMALL, attention_dropout=0.5)
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation=gt.register_attention())
    ids = torch.randint(3, 90, (1, 9))
    model.train()
    assert not torch.equal(model(ids).logits, model(ids).logits)
    model.eval()
    weights = model(ids, output_attentions=True).attentions[0]
    assert weights.shape == (1, 4, 9, 9) and math.isclose(float(weights.sum()), 36, rel_tol=1e-5)
    assert torch.equal(weights.triu(1), torch.zeros_like(weights))
