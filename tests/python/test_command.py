"""What the gyre command computes for Python: diff, extend, perplexity, and Ctrl-C."""

import json
import signal
import threading
from pathlib import Path

import gyre
import numpy as np
import pytest
from gyre import _command

TEXT = "\n".join(f"{i}: the quick brown fox jumps over the lazy dog {i * i} times" for i in range(60))


def test_diff_of_two_programs(configs) -> None:
    difference = gyre.diff(configs / "gpt-oss-20b.json", with_profile="llama.cpp", layer_type="full_attention")
    assert difference and difference["groups"][0]["pair"] == 17
    assert "1.76 times" in difference["verdict"]
    page = difference._repr_html_()
    assert "truncate" in page and "<svg" in page
    assert not gyre.diff(configs / "llama-3.1-8b.json", with_profile="vllm")


def test_diff_of_dicts_and_encodings(configs) -> None:
    config = json.loads((configs / "llama-3.1-8b.json").read_text())
    changed = {**config, "rope_theta": 1e6}
    assert gyre.diff(config, changed) and not gyre.diff(config, config)
    told = gyre.diff(gyre.rope(64), gyre.rope(64, base=2e4))
    x, y = gyre.rope(64).frequencies(), gyre.rope(64, base=2e4).frequencies()
    assert told["groups"][0]["max_difference_pair"] == int(np.argmax(abs(x - y)))
    assert told["groups"][0]["first_position"] == int(np.ceil(0.01 / abs(x - y).max()))
    assert not gyre.diff(gyre.alibi(4), gyre.alibi(4))


def test_extend(configs, tmp_path) -> None:
    path = configs / "llama-2-7b.json"
    told = gyre.extend(path, to=16384, methods=["linear", "yarn"], method="yarn", write=tmp_path / "new.json")
    assert [row["method"] for row in told["methods"]] == ["linear", "yarn"]
    written = gyre.Encoding.from_config(tmp_path / "new.json")
    assert written.config["rope.scaling"] == "yarn" and written.config["rope.factor"] == 4
    pytest.importorskip("pandas")
    assert set(told.frame()["hf-5"]) == {"same"}


def test_perplexity(bundled_model, capsys) -> None:
    seen = []
    told = gyre.open(bundled_model).perplexity(
        TEXT, methods=["none", "yarn"], contexts=[64, 512], windows=2, on_result=seen.append
    )
    assert [(r["method"], r["context"]) for r in told["results"]] == [
        ("none", 64),
        ("none", 512),
        ("yarn", 64),
        ("yarn", 512),
    ]
    assert seen == told["results"] and told.rows()[0]["perplexity"] > 1
    assert "4/4" in capsys.readouterr().err
    assert "yarn" in told._repr_html_()


def test_a_failing_command_is_an_error(bundled_model) -> None:
    with pytest.raises(gyre.Error, match="yarm"):
        gyre.open(bundled_model).perplexity(TEXT, methods=["yarm"], contexts=[64], progress=False)
    with pytest.raises(gyre.Error, match="pathlib.Path"):
        gyre.open(bundled_model).perplexity(str(bundled_model / "config.json"), progress=False)


@pytest.fixture
def ctrl_c():
    """Ctrl-C as in a program of the foreground: a shell has programs of the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_ctrl_c_ends_a_measurement_and_keeps_its_figures(bundled_model, tmp_path, ctrl_c) -> None:
    long = tmp_path / "text"
    long.write_text(TEXT * 400)
    timers = []

    def interrupt(result) -> None:
        main = threading.main_thread().ident
        timers.append(threading.Timer(0.2, signal.pthread_kill, (main, signal.SIGINT)))
        timers[-1].start()

    with pytest.raises(KeyboardInterrupt) as caught:
        gyre.open(bundled_model).perplexity(
            Path(long), methods=["none"], contexts=[64, 4096, 65536], windows=8, progress=False, on_result=interrupt
        )
    for timer in timers:
        timer.cancel()
    assert isinstance(caught.value, gyre.Interrupted) and caught.value.results[0]["context"] == 64


def test_the_command_is_there() -> None:
    assert "Usage" in _command.run(["explain", "--help"])
