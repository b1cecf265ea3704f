"""Models that run: logits, tokens one by one, tokenizers."""

import gyre
import numpy as np
import pytest

TEXT = "The quick brown fox jumps over the lazy dog."


def test_logits_do_not_depend_on_the_cut(bundled_model) -> None:
    model = gyre.open(bundled_model)
    ids = model.tokenizer().encode(TEXT)
    assert model.tokenizer().decode(ids) == TEXT
    whole = model.context(64).read(ids)
    assert whole.dtype == np.float32 and whole.shape == (len(ids), model.load().about()["vocab"])
    context = model.context(64)
    for i, token in enumerate(ids):
        np.testing.assert_array_equal(context.read([token])[0], whole[i])
    assert context.tokens == len(ids)
    context.truncate(5)
    np.testing.assert_array_equal(context.read(np.array(ids[5:9]), rows=1)[0], whole[8])
    nats = np.log(np.exp(whole.astype("f8")).sum(-1))[:-1] - whole[np.arange(len(ids) - 1), ids[1:]]
    assert nats.mean() < 4  # far below log 256


def test_errors_of_models(bundled_model, configs) -> None:
    model = gyre.open(bundled_model)
    with pytest.raises(gyre.Error, match="ids: "):
        model.context(8).read("text")
    with pytest.raises(gyre.Error):
        model.context(8).read([256])
    with pytest.raises(gyre.Error):
        model.context(4).read([1, 2, 3, 4, 5])
    with pytest.raises(gyre.Error, match="tokens: is 3, not 0 .. 0"):
        model.context(4).truncate(3)
    with pytest.raises(gyre.Error, match="cache: is 'int4'"):
        model.context(4, cache="int4")
    with pytest.raises(gyre.Error):
        gyre.open(configs).load()
    with pytest.raises(gyre.Error):
        gyre.Tokenizer.open(configs / "llama-2-7b.json")
