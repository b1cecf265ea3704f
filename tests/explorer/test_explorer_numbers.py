"""The page's numbers are those of the native library and command."""

import base64
import json
import math

import pytest
from explorer_fixtures import ROOT, as_json, model_ready, number, settle, show, table

pytest_plugins = "explorer_fixtures"

LLAMA = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "num_hidden_layers": 2,
    "head_dim": 128,
    "intermediate_size": 4096,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "rope_theta": 10000.0,
}
STATE = "dim=128&base=10000&trained=4096&target=16384"
SCALINGS = {
    "none": None,
    "linear": {"rope_type": "linear", "factor": 4.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 4096},
    "llama3": {
        "rope_type": "llama3",
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 4096,
    },
    "dynamic": {"rope_type": "dynamic", "factor": 4.0},
}


@pytest.mark.parametrize("method", SCALINGS)
def test_frequencies_are_those_of_explain(open_page, gyre, tmp_path, method):
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**LLAMA, "rope_scaling": SCALINGS[method]}))
    told = as_json(gyre("explain", str(config), "--length", "16384", "--json"))
    rows = table(open_page(f"{STATE}&method={method}"), "waves")[1:]
    assert len(rows) == len(told["inv_freq"]) == 64
    for row, inv_freq, wavelength in zip(rows, told["inv_freq"], told["wavelength"], strict=True):
        assert number(row[5]) == pytest.approx(inv_freq, rel=1e-5)
        assert number(row[2]) == pytest.approx(wavelength, rel=1e-4)


@pytest.mark.parametrize("method", ["none", "linear", "ntk", "ntk-mixed", "llama3", "dynamic", "by-parts", "yarn"])
def test_pairs_are_counted_as_extend_does(open_page, gyre, method):
    told = as_json(gyre("extend", "models/rope", "--to", "1024", "--methods", method, "--json"))["methods"][0]
    page = open_page(f"method={method}&trained=256&target=1024&dim=32")
    rows = table(page, "waves")[1:]
    kept = [number(row[4]) for row in rows]
    parts = told["pairs"]
    words = page.locator("#waves .readout").inner_text()
    assert f"kept {parts['kept']}, blended {parts['blended']}, divided {parts['divided']}" in words
    assert sum(k >= 0.9995 for k in kept) >= parts["kept"]
    assert number(rows[-1][2]) == pytest.approx(told["slowest_turn"], rel=1e-4)
    unseen = [row[-1] for row in table(page, "map")[1:]]
    assert sum(first != "never" and number(first) < 1024 for first in unseen) == told["unseen_pairs"]
    if told["attention_factor"] != 1:
        assert f"{told['attention_factor']:.4g}" in words


def test_angles_are_position_times_frequency(open_page, gyre):
    """At positions where the double product leaves no doubt."""
    told = as_json(gyre("explain", "models/rope", "--json"))
    rows = table(open_page("method=none&m=200&n=100"), "clock")[1:]
    for row, inv_freq in zip(rows, told["inv_freq"], strict=True):
        for cell, position in ((row[2], 200), (row[3], 100)):
            difference = number(cell) - position * inv_freq
            assert abs(difference - 2 * math.pi * round(difference / (2 * math.pi))) < 2e-3


def test_unseen_angles_come_and_go(open_page):
    """A hand is unseen where its angle, within a turn, lies past the last trained one."""
    for position in (200, 300, 400, 600, 650, 720, 1000):
        page = open_page(f"method=none&trained=256&target=1024&dim=32&m={position}&n=0&axis=pair")
        for row in table(page, "helix")[1:]:
            rate = 10000 ** (-int(row[0]) / 16)
            turn = 2 * math.pi
            strange = 256 * rate < turn and math.fmod(position * rate, turn) >= 256 * rate - 1e-9
            assert (row[3] == "yes") == strange, (position, row)


def terminal(page) -> str:
    page.wait_for_function(
        "() => document.querySelector('.terminal').textContent.length > 20 && !document.querySelector('#yours').ariaBusy"
    )
    settle(page)
    page.wait_for_timeout(200)
    return page.locator(".terminal").evaluate("node => node.textContent")


def printed(gyre, folder, arguments: str) -> str:
    result = gyre(*arguments.split(), cwd=folder)
    return result.stdout + (f"\n{result.stderr}" if result.stdout and result.stderr else result.stderr)


CONFIGS = ("llama-3.1-8b", "gpt-oss-20b", "gemma-3-4b", "deepseek-v3", "mpt-7b", "t5-base")


@pytest.mark.parametrize("name", CONFIGS)
def test_a_dropped_config_explains_as_the_command_prints(open_page, gyre, tmp_path, name):
    text = (ROOT / "tests/configs" / f"{name}.json").read_text()
    (tmp_path / "config.json").write_text(text)
    page = open_page()
    show(page, "yours")
    page.evaluate(
        """text => {
            const given = new DataTransfer();
            given.items.add(new File([text], 'config.json', { type: 'application/json' }));
            const drop = new DragEvent('drop', { dataTransfer: given, bubbles: true, cancelable: true });
            document.querySelector('.drop').dispatchEvent(drop);
        }""",
        text,
    )
    assert terminal(page) == printed(gyre, tmp_path, "explain config.json --as hf-5")


@pytest.mark.parametrize("name", ("llama-3.1-8b", "gpt-oss-20b"))
def test_diff_and_extend_are_the_commands(open_page, gyre, tmp_path, name):
    text = (ROOT / "tests/configs" / f"{name}.json").read_text()
    (tmp_path / "config.json").write_text(text)
    page = open_page()
    page.fill("#config", text)
    terminal(page)
    for task in ("diff", "extend"):
        page.click(f"#yours button[data-value={task}]")
        settle(page)
        page.wait_for_timeout(600)
        command = page.locator(".command").inner_text()
        assert terminal(page) == printed(gyre, tmp_path, command.removeprefix("gyre "))


def test_a_broken_config_says_what_the_command_says(open_page, gyre, tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "llama", ')
    page = open_page()
    page.fill("#config", '{"model_type": "llama", ')
    assert terminal(page) == printed(gyre, tmp_path, "explain config.json --as hf-5")


def test_the_head_of_a_gguf(open_page, gyre, tmp_path):
    assert gyre("convert", "models/rope", "-o", str(tmp_path / "small.gguf")).returncode == 0
    whole = (tmp_path / "small.gguf").read_bytes()
    page = open_page()
    show(page, "yours")
    page.set_input_files("#config-file", {"name": "small.gguf", "mimeType": "application/octet-stream", "buffer": whole})
    assert terminal(page) == printed(gyre, tmp_path, "explain small.gguf")


def dropped(page, name: str, data: bytes, target: str) -> None:
    page.evaluate(
        """([name, data, target]) => {
            const given = new DataTransfer();
            given.items.add(new File([Uint8Array.from(atob(data), c => c.charCodeAt(0))], name));
            const drop = new DragEvent('drop', { dataTransfer: given, bubbles: true, cancelable: true });
            if (document.querySelector(target).dispatchEvent(drop)) throw new Error('the browser would open the file');
        }""",
        [name, base64.b64encode(data).decode(), target],
    )


def test_a_gguf_dropped_anywhere(open_page, gyre, tmp_path):
    """The head of a file is enough; a second file of the same name is read anew; the picker names the program that reads."""
    page = open_page()
    for model in ("rope", "rope-tuned-yarn-16"):
        assert gyre("convert", f"models/{model}", "-o", str(tmp_path / "small.gguf"), "--force").returncode == 0
        whole = (tmp_path / "small.gguf").read_bytes()
        dropped(page, "small.gguf", whole[: len(whole) // 2], "#map" if model == "rope" else "h1")
        want = printed(gyre, tmp_path, "explain small.gguf")
        page.wait_for_function("want => document.querySelector('.terminal').textContent === want", arg=want)
    assert page.input_value("#yours-as") == "llama.cpp"


def test_a_file_is_shown_though_the_page_draws_while_it_is_read(open_page, gyre, tmp_path):
    page = open_page()
    for model in ("rope", "rope-tuned-yarn-16"):
        assert gyre("convert", f"models/{model}", "-o", str(tmp_path / "small.gguf"), "--force").returncode == 0
        whole = (tmp_path / "small.gguf").read_bytes()
        want = printed(gyre, tmp_path, "explain small.gguf")
        dropped(page, "small.gguf", whole[: len(whole) // 2], "#yours")
        page.evaluate("pair => void (location.hash = `pair=${pair}`)", 3 if model == "rope" else 5)
        page.wait_for_function("want => document.querySelector('.terminal').textContent === want", arg=want, timeout=60_000)
        page.evaluate(
            """() => {
                const whole = Blob.prototype.arrayBuffer;
                Blob.prototype.arrayBuffer = async function () {
                    await new Promise(done => setTimeout(done, 500));
                    return whole.call(this);
                };
            }"""
        )


DROP_LARGE = """([name, head, size]) => {
    window.reads = [];
    const whole = Blob.prototype.arrayBuffer;
    Blob.prototype.arrayBuffer = function () { window.reads.push(this.size); return whole.call(this); };
    const given = new DataTransfer();
    given.items.add(new File([head, new Uint8Array(size - head.length)], name));
    document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: given, bubbles: true, cancelable: true }));
}"""


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_large_file_that_is_no_gguf_is_refused_unread(open_page, language):
    """What was there stays, and the refusal goes with the next config."""
    page = open_page(f"lang={language}&config=%7B%22model_type%22%3A%22llama%22%7D")
    before = terminal(page)
    page.evaluate(DROP_LARGE, ["weights.safetensors", "{}", 5 << 20])
    page.wait_for_function("() => document.querySelector('#yours .alert').textContent")
    told = page.locator("#yours .alert").inner_text()
    assert "weights.safetensors" in told and "5 MiB" in told
    assert page.evaluate("() => window.reads") == [4]
    assert page.input_value("#config") == '{"model_type":"llama"}' and terminal(page) == before
    page.locator("#yours .samples button").first.click()
    settle(page)
    assert page.locator("#yours .alert").is_hidden()


def test_of_a_large_gguf_the_head_is_read(open_page):
    page = open_page()
    page.evaluate(DROP_LARGE, ["large.gguf", "GGUF", 50 << 20])
    page.wait_for_function("() => document.querySelector('.terminal').textContent.length > 10")
    assert page.evaluate("() => window.reads") == [4, 48 << 20]
    assert page.locator("#yours .alert").is_hidden()


def test_a_file_that_cannot_be_read_is_said(open_page):
    page = open_page()
    page.evaluate(
        """() => {
            Blob.prototype.arrayBuffer = () => Promise.reject(new DOMException('gone', 'NotFoundError'));
            const given = new DataTransfer();
            given.items.add(new File(['{}'], 'folder'));
            document.body.dispatchEvent(new DragEvent('drop', { dataTransfer: given, bubbles: true, cancelable: true }));
        }"""
    )
    page.wait_for_function("() => document.querySelector('#yours .alert').textContent")
    assert "folder" in page.locator("#yours .alert").inner_text()


def test_a_link_with_a_config_takes_the_place_of_a_dropped_gguf(open_page, gyre, tmp_path):
    assert gyre("convert", "models/rope", "-o", str(tmp_path / "small.gguf")).returncode == 0
    whole = (tmp_path / "small.gguf").read_bytes()
    page = open_page()
    dropped(page, "small.gguf", whole[: len(whole) // 2], "#map")
    page.wait_for_function("() => document.querySelector('.terminal').textContent.startsWith('small.gguf')")
    (tmp_path / "config.json").write_text('{"model_type":"llama"}')
    want = printed(gyre, tmp_path, "explain config.json --as hf-5")
    page.evaluate("() => void (location.hash = 'config=%7B%22model_type%22%3A%22llama%22%7D')")
    page.wait_for_function("want => document.querySelector('.terminal').textContent === want", arg=want)
    assert page.input_value("#config") == '{"model_type":"llama"}'
    assert page.input_value("#yours-as") == "hf-5"


def test_gyre_explore_gives_a_config(open_page, gyre, tmp_path):
    text = (ROOT / "tests/configs/gemma-3-4b.json").read_text()
    (tmp_path / "config.json").write_text(text)
    written = gyre("explore", "config.json", "-o", "page.html", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    page = open_page(path=tmp_path / "page.html")
    assert terminal(page) == printed(gyre, tmp_path, "explain config.json --as hf-5")
    assert page.locator("#yours").evaluate("node => node.getBoundingClientRect().top < innerHeight")


def test_the_knobs_take_a_config(open_page):
    page = open_page()
    page.fill("#config", (ROOT / "tests/configs/llama-3.1-8b.json").read_text())
    terminal(page)
    page.locator("#yours .result .buttons button").first.click()
    page.wait_for_function("() => document.querySelector('#knob-dim').value === '128'")
    assert number(page.input_value("#knob-base")) == 500000
    assert page.input_value("#knob-trained") == "8k"


METHODS = ("none", "linear", "ntk", "by-parts", "yarn")


@pytest.mark.parametrize("window", [256, 512])
def test_losses_are_those_of_eval(open_page, gyre, tmp_path, window):
    text = (ROOT / "include/gyre/gyre_cache.h").read_text()[:2000]
    (tmp_path / "text.h").write_text(text)
    told = as_json(
        gyre(
            "eval",
            "models/rope",
            "--text",
            str(tmp_path / "text.h"),
            "--contexts",
            str(window),
            "--methods",
            ",".join(METHODS),
            "--by-position",
            "16",
            "--json",
        )
    )["results"]
    page = open_page(f"window={window}")
    page.fill("#model-text", text)
    show(page, "model")
    page.wait_for_timeout(1000)
    model_ready(page)
    for result in told:
        shown = page.locator(f"#model [data-perplexity={result['method']}]").inner_text()
        assert number(shown) == pytest.approx(result["perplexity"], abs=6e-4)
    rows = table(page, "model")
    for k, row in enumerate(rows[1:]):
        for cell, result in zip(row[1:], told, strict=True):
            assert number(cell) == pytest.approx(result["by_position"][k], abs=2e-4)


def test_a_hidden_key_is_found_or_not(open_page):
    page = open_page("window=512")
    model_ready(page)
    page.click("#model-hide")
    page.wait_for_selector("#model .answers")
    key = page.locator("#model .excerpts mark").first.inner_text()
    assert len(key) == 4 and key.isdigit()
    rows = page.locator("#model .answers tbody tr").all()
    assert len(rows) == len(METHODS)
    for row in rows:
        found = row.locator("td").last.get_attribute("class") == "found"
        assert found == (row.locator(".digits").inner_text() == key)
