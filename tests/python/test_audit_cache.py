"""gyre.audit_cache: tables of angles in memory of numpy and torch, made by the formulas of the programs."""

from __future__ import annotations

import json
import math
from typing import Any

import gyre
import numpy as np
import pytest

CONFIG = {
    "model_type": "llama",
    "hidden_size": 256,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "max_position_embeddings": 2048,
    "rope_theta": 10000.0,
}
DIM, ROWS = 64, 2048


def table(base: float = 1e4, rows: int = ROWS) -> np.ndarray:
    """vLLM's cos_sin_cache in float32."""
    inv_freq = 1 / np.float32(base) ** (np.arange(0, DIM, 2, dtype=np.float32) / np.float32(DIM))
    angles = np.outer(np.arange(rows, dtype=np.float32), inv_freq)
    return np.concatenate((np.cos(angles), np.sin(angles)), axis=-1)


def match(audit: gyre.TableAudit, profile: str) -> dict[str, Any]:
    return next(m for m in audit["matches"] if m["profile"] == profile)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16"])
def test_a_right_table(dtype: str) -> None:
    audit = gyre.audit_cache(table().astype(dtype), CONFIG)
    assert audit["ok"] and audit["form"] == "cos-sin" and audit["columns"] == "once"
    assert audit["positions"] == ROWS and audit["pairs"] == DIM // 2
    assert audit["rounded"] == ("f16" if dtype == "float16" else "f32")
    assert match(audit, "hf-5")["same"] and match(audit, "hf-5")["first_position"] is None
    np.testing.assert_allclose(audit["frequencies"], 1e4 ** (-np.arange(0, DIM, 2) / DIM), rtol=0.05)


def test_views_are_read_in_place() -> None:
    """A slice, a transposed table and each second column are the memory that they are."""
    whole = table()
    assert gyre.audit_cache(whole[:100], CONFIG)["positions"] == 100
    assert gyre.audit_cache(np.asfortranarray(whole), CONFIG)["ok"]
    spread = np.zeros((ROWS, 2 * DIM), np.float32)
    spread[:, ::2] = whole
    assert gyre.audit_cache(spread[:, ::2], CONFIG)["ok"]
    assert gyre.audit_cache(whole.reshape(1, ROWS, 1, DIM), CONFIG)["ok"]
    assert gyre.audit_cache(whole.reshape(ROWS, 2, DIM // 2), CONFIG)["form"] == "cos-sin"
    pairs = np.ascontiguousarray(whole.reshape(ROWS, 2, DIM // 2).swapaxes(1, 2))
    assert gyre.audit_cache(pairs, CONFIG)["form"] == "pairs"


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(table())
    audit = gyre.audit_cache(tensor.to(torch.bfloat16), CONFIG)
    assert audit["ok"] and audit["rounded"] == "bf16" and "rounded to bf16 at the end" in audit["verdict"]
    inv_freq = 1 / 1e4 ** (torch.arange(0, DIM, 2) / DIM)
    angles = torch.outer(torch.arange(ROWS), inv_freq.bfloat16().float())
    audit = gyre.audit_cache(torch.cat((angles.cos(), angles.cos()), -1), CONFIG)
    assert not audit["ok"] and match(audit, "hf-5")["same"] and audit["form"] == "cos" and audit["columns"] == "halves"
    assert match(audit, "hf-5")["precision"] == "bf16-frequencies"
    gap = (inv_freq - inv_freq.bfloat16().float()).abs().max().item()
    assert abs(match(audit, "hf-5")["inexact_from"] - math.ceil(0.01 / gap)) <= 1
    assert gyre.audit_cache(inv_freq, CONFIG)["form"] == "frequencies"


def test_a_wrong_table() -> None:
    audit = gyre.audit_cache(table(5e5), CONFIG)
    assert not audit["ok"] and match(audit, "hf-5")["first_position"] == 1 and match(audit, "hf-5")["first_pair"] == 1
    assert abs(audit["base"] / 5e5 - 1) < 0.01 and "the config says 10000" in audit["verdict"]
    spoilt = table()
    spoilt[1500:] = table(2e4)[1500:]
    found = match(gyre.audit_cache(spoilt, CONFIG, profile="hf-5"), "hf-5")
    assert found["first_position"] == 1500 and found["positions_off"] == ROWS - 1500
    assert {m["profile"] for m in gyre.audit_cache(spoilt, CONFIG, profile="hf-5")["matches"]} == {"hf-5"}


def test_sources(tmp_path: Any) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG))
    for source in (path, str(path), tmp_path, CONFIG):
        assert gyre.audit_cache(table(), source)["ok"]
    audit = gyre.audit_cache(table(), {**CONFIG, "rope_scaling": {"rope_type": "dynamic-yarn", "factor": 2.0}})
    assert any(refusal["profile"] == "hf-5" for refusal in audit["refused"])
    assert "<table" in gyre.audit_cache(table(), CONFIG)._repr_html_()
    assert len(gyre.audit_cache(table(), CONFIG).rows()) == len(gyre.audit_cache(table(), CONFIG)["matches"])


def test_refusals(tmp_path: Any) -> None:
    for call, text in (
        (lambda: gyre.audit_cache([1.0], CONFIG), "table: is a list"),
        (lambda: gyre.audit_cache(np.zeros((4, 8), np.int32), CONFIG), "table: "),
        (lambda: gyre.audit_cache(np.zeros((4, 8), np.complex64), CONFIG), "table: "),
        (lambda: gyre.audit_cache(np.zeros((3, 4, 5), np.float32), CONFIG), r"table: the shape \[1, 3, 4, 5\]"),
        (lambda: gyre.audit_cache(np.zeros((1, 1, 1, 4, 8), np.float32), CONFIG), "table: has 5 axes"),
        (lambda: gyre.audit_cache(np.zeros((0, 8), np.float32), CONFIG), "table: "),
        (lambda: gyre.audit_cache(table(), 7), "source: is a int"),
        (lambda: gyre.audit_cache(table(), tmp_path / "none.json"), "none.json"),
        (lambda: gyre.audit_cache(table(), {**CONFIG, "hidden_size": -1}), "hidden_size"),
        (lambda: gyre.audit_cache(table(), CONFIG, profile="vllm-1999"), "profile: "),
        (lambda: gyre.audit_cache(table(), CONFIG, length=-1), "length"),
    ):
        with pytest.raises(gyre.Error, match=text):
            call()
