"""Models that nobody here trained, read and run by the commands that people type, with transformers as the judge.

GYRE_REAL names the folder of scripts/real-models.  transformers reads the same GGUF files and dequantises them."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import tokenizers
import torch
import transformers

import gyre

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "python"))
from judges.gyre_command import GYRE  # noqa: E402
from judges.gyre_command import gyre as command  # noqa: E402

FOLDER = Path(os.environ["GYRE_REAL"])
TEXTS = [Path("/usr/share/common-licenses/GPL-3"), Path(__file__).resolve().parents[2] / "docs/decisions.md"]
ODD = "Größe 你好 👍🏽 \t x=1\n\n 123 4567 1,234.50 don't I'LL\n\n  0. A"
TOKENS = 256
MODELS = {
    "smollm2": {"file": "SmolLM2-135M-Instruct.Q4_1.gguf", "base": "100000", "trained": "8192"},
    "gemma3": {"file": "gemma-3-270m-q4_k_m.gguf", "base": "10000", "trained": "32768"},
}


class Judged:
    """A model, its tokenizer as transformers makes it, and the logits after each of the first tokens of a text."""

    def __init__(self, name):
        self.file = MODELS[name]["file"]
        self.path = FOLDER / self.file
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(FOLDER, gguf_file=self.file)
        if name == "smollm2":
            # transformers does not read tokenizer.ggml.pre: its tokenizer lacks the step that separates digits.
            steps = [tokenizers.pre_tokenizers.Digits(individual_digits=True), tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)]
            self.tokenizer.backend_tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.Sequence(steps)
        self.ids = self.tokenizer(TEXTS[0].read_text())["input_ids"][: TOKENS + 1]
        model = transformers.AutoModelForCausalLM.from_pretrained(FOLDER, gguf_file=self.file, dtype=torch.float32).eval()
        with torch.no_grad():
            self.logits = model(torch.tensor([self.ids[:TOKENS]])).logits[0].numpy().astype(numpy.float64)

    def loss(self, first):
        """Nats of each token from `first` on."""
        rows = self.logits[first - 1 :]
        peak = rows.max(axis=1)
        total = peak + numpy.log(numpy.exp(rows - peak[:, None]).sum(axis=1))
        return total - rows[numpy.arange(len(rows)), self.ids[first:]]


@pytest.fixture(scope="module", params=MODELS)
def name(request):
    return request.param


@pytest.fixture(scope="module")
def judged(name):
    return Judged(name)


def run(*arguments):
    return json.loads(command(*arguments, "--json"))


def test_explain_and_audit(name):
    path = FOLDER / MODELS[name]["file"]
    fields = {entry["name"]: entry["value"] for entry in run("explain", path)["groups"][0]["fields"]}
    assert (fields["base"], fields["trained_length"]) == (MODELS[name]["base"], MODELS[name]["trained"])
    page = run("audit", path)
    assert (page["wrong"], page["doubt"]) == (0, 0) and page["ok"]


def test_token_ids(judged):
    tokenizer = gyre.open(judged.path).tokenizer()
    for text in [path.read_text() for path in TEXTS] + [ODD]:
        ids = tokenizer.encode(text)
        assert ids == judged.tokenizer(text)["input_ids"]
        assert tokenizer.decode(ids) == text


def test_logits(judged):
    """Both multiply the same f32 numbers; a logit is a sum of some hundred products, whose order differs."""
    logits = gyre.open(judged.path).context(TOKENS).read(judged.ids[:TOKENS])
    assert (logits.argmax(axis=1) == judged.logits.argmax(axis=1)).all()
    assert numpy.abs(logits - judged.logits).max() < 2e-4 * judged.logits.std()


def test_eval(judged, tmp_path):
    """The perplexity of the second half of a window."""
    ids = tmp_path / "ids"
    ids.write_text(" ".join(map(str, judged.ids)))
    cells = run("eval", judged.path, "--ids", ids, "--contexts", TOKENS, "--first", "--windows", 1, "--methods", "none,yarn:2")["results"]
    loss = judged.loss(TOKENS // 2 + 1)
    assert math.isclose(cells[0]["perplexity"], math.exp(loss.mean()), rel_tol=1e-4)
    assert cells[1]["perplexity"] > cells[0]["perplexity"]


def test_generate(name, judged):
    """An instruct model answers in a chat; a base model continues."""
    question = "What is the capital of France?"
    if name == "gemma3":
        text = run("generate", judged.path, "--prompt", "The capital of France is the city of", "--tokens", 4)["text"]
        assert text.strip().startswith("Paris")
        return
    chat = run("generate", judged.path, "--chat", "--prompt", question, "--tokens", 24)
    messages = [{"role": "user", "content": question}]
    wanted = judged.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    assert chat["chat_template"] == "chatml" and chat["prompt_ids"] == list(wanted)
    assert "Paris" in chat["text"] and chat["stopped"] == "end"


def test_passkey(name, judged):
    """Within the trained length, where a model that finds no key says nothing of a method."""
    asked = run("passkey", judged.path, "--lengths", 512, "--depths", 3, "--trials", 1)
    assert asked["prompt"]["format"] == ("chat" if name == "smollm2" else "words")
    assert asked["verdict"] is None
    assert asked["totals"][0]["right"] > 0.5


def test_pictures(judged, tmp_path):
    picture = tmp_path / "attention.svg"
    command("plot", "attention", judged.path, "--text", TEXTS[0], "--tokens", 128, "-o", picture)
    assert "<svg" in picture.read_text()


# The two below measure at a fraction of the trained length, as if the model had been trained on that, and only the smaller one.
def test_extend():
    path = FOLDER / MODELS["smollm2"]["file"]
    page = run("extend", path, "--text", TEXTS[0], "--trained", 64, "--to", 128, "--windows", 3, "--methods", "none,linear,yarn")
    assert page["verdict"]["basis"] == "measured"
    cost = page["verdict"]["cost"]
    assert cost["complete"] and [row["method"] for row in cost["methods"]] == ["none", "linear", "yarn"]
    assert all(row["far"]["windows"] == 3 for row in cost["methods"])


def test_search():
    """The exit status is 1 where a method without a search predicts better."""
    path = FOLDER / MODELS["smollm2"]["file"]
    options = ["--trained", 64, "--to", 128, "--windows", 2, "--held-out", 2, "--budget", 23, "--pairs", "--json"]
    done = subprocess.run([GYRE, "search", path, "--text", TEXTS[0], *map(str, options)], capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stderr
    assert json.loads(done.stdout)["pairs"]
