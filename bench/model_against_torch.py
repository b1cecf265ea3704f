#!/usr/bin/env python3
"""A whole model of a published shape: Gyre against transformers' Llama in float32, in one sitting.  See bench/README.md.

A child process holds the model in PyTorch.  It and `gyre bench model --shape` alternate, round by round; the least
processor seconds of each are compared.  Weights are random: time does not depend on them.
"""
import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time

# Those of gyre bench model --shape, whose number of parameters is compared.
SHAPES = {
    "smollm2": {"vocab_size": 49152, "num_hidden_layers": 30, "hidden_size": 576, "num_attention_heads": 9,
                "num_key_value_heads": 3, "intermediate_size": 1536},
    "smollm2-360m": {"vocab_size": 49152, "num_hidden_layers": 32, "hidden_size": 960, "num_attention_heads": 15,
                     "num_key_value_heads": 5, "intermediate_size": 2560},
}
GOALS = {"prefill": 1.5, "decode": 1.5}
DECODES = 8  # in a round; the least counts


# -- the child ----------------------------------------------------------------------------------------------------------
def child(name, tokens, threads):
    """Answers each line of standard input with the processor seconds of a prefill and of a decoded token."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM, logging
    logging.set_verbosity_error()
    torch.set_num_threads(threads)
    torch.manual_seed(1)
    config = LlamaConfig(**SHAPES[name], head_dim=64, max_position_embeddings=tokens + DECODES, rope_theta=100000.0,
                         tie_word_embeddings=True, attn_implementation="sdpa")
    model = LlamaForCausalLM(config).eval().to(torch.float32)
    ids = torch.arange(tokens)[None] * 7919 % config.vocab_size

    def timed(*arguments, **options):
        before = time.process_time()
        out = model(*arguments, use_cache=True, logits_to_keep=1, **options)
        return time.process_time() - before, out

    with torch.inference_mode():
        model(ids[:, :64])
        print(json.dumps({"torch": torch.__version__, "parameters": sum(p.numel() for p in model.parameters())}), flush=True)
        for _ in sys.stdin:
            prefill, out = timed(ids)
            cache, decode = out.past_key_values, []
            for _ in range(DECODES):  # the cache grows by that many
                decode.append(timed(ids[:, :1], past_key_values=cache)[0])
            print(json.dumps({"prefill": prefill, "decode": min(decode)}), flush=True)
    return 0


class Torch:
    def __init__(self, options, tokens):
        command = [sys.executable, "-W", "ignore", os.path.abspath(__file__), "--child", options.shape, str(tokens), str(options.threads)]
        limit = {name: str(options.threads) for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")}
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **limit, "OMP_WAIT_POLICY": "passive"})
        self.said = self.read()

    def read(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"model_against_torch.py: the process with PyTorch ended with {self.process.wait()}")
        return json.loads(line)

    def round(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.read()

    def end(self):
        self.process.stdin.close()
        self.process.wait()


# -- the rounds ---------------------------------------------------------------------------------------------------------
def gyre_round(options, tokens, parameters):
    """ns of `gyre bench model` is processor time over the threads."""
    command = [options.gyre, "bench", "model", "--shape", options.shape, "--tokens", str(tokens), "--threads",
               str(options.threads), "--rounds", str(DECODES), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
    if done.returncode:
        sys.exit(f"model_against_torch.py: {' '.join(command)}: exit status {done.returncode}")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    if rows[0]["parameters"] != parameters:
        sys.exit(f"model_against_torch.py: gyre's {options.shape} has {rows[0]['parameters']} parameters, torch's {parameters}")
    return {row["case"]: 1e-9 * row["ns"] * row["threads"] for row in rows if row["threads"] == options.threads}


def compare(options, tokens):
    torch = Torch(options, tokens)
    theirs, mine = [], []
    for _ in range(options.rounds):
        theirs.append(torch.round())
        mine.append(gyre_round(options, tokens, torch.said["parameters"]))
    torch.end()
    for case, goal in GOALS.items():
        seconds = [min(one[case] for one in rounds) for rounds in (theirs, mine)]
        yield {"shape": options.shape, "case": case, "tokens": tokens, "threads": options.threads, "rounds": options.rounds,
               "torch_seconds": seconds[0], "gyre_seconds": seconds[1], "ratio": seconds[0] / seconds[1], "goal": goal,
               "torch": torch.said["torch"]}


def print_row(row):
    missed = "  missed" if row["ratio"] < row["goal"] else ""
    print(f"{row['case']:<8} {row['tokens']:>6} {1e3 * row['torch_seconds']:>10.1f} {1e3 * row['gyre_seconds']:>10.1f} "
          f"{row['ratio']:>6.2f} {row['goal']:>5.1f}{missed}", flush=True)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--gyre", default=os.path.join(here, "..", "build", "release", "gyre"), help="the gyre command")
    parser.add_argument("--shape", default="smollm2", choices=SHAPES, help="(default: smollm2)")
    parser.add_argument("--tokens", default="512,2048", help="lengths of the prefill (default: 512,2048)")
    parser.add_argument("--threads", type=int, default=1, help="of both (default: 1)")
    parser.add_argument("--rounds", type=int, default=3, help="(default: 3)")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each row")
    options = parser.parse_args()
    options.tokens = [int(tokens) for tokens in options.tokens.split(",")]
    if options.rounds < 1 or options.threads < 1 or min(options.tokens) < 2:
        parser.error("--rounds and --threads: at least 1; --tokens: at least 2")
    return options


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--child":
        return child(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
    options = read_options()
    missing = [module for module in ("torch", "transformers") if importlib.util.find_spec(module) is None]
    if missing:
        sys.exit(f"model_against_torch.py: {' and '.join(missing)} missing for {sys.executable}: nothing to compare with")
    if not os.access(options.gyre, os.X_OK):
        sys.exit(f"model_against_torch.py: {options.gyre}: no such command (make build, or --gyre PATH)")
    if not options.json:
        print(f"A llama of the shape {options.shape}, {options.threads} thread(s), least processor time of {options.rounds} "
              f"rounds in turn.\ntorch: transformers' Llama in float32; gyre: weights in f16.  ratio: torch / gyre.\n\n"
              f"{'case':<8} {'tokens':>6} {'torch ms':>10} {'gyre ms':>10} {'ratio':>6} {'goal':>5}")
    for tokens in options.tokens:
        for row in compare(options, tokens):
            print(json.dumps(row), flush=True) if options.json else print_row(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
