#!/usr/bin/python3
"""Attention with positions: Gyre against eager PyTorch on one thread, in one sitting.  See bench/README.md.

Each way to write a scheme in torch is a child process, once with malloc's defaults and once with malloc set to keep its
pages; all of them and `gyre bench encodings` alternate, round by round.
"""
import argparse
import importlib.util
import json
import math
import os
import resource
import statistics
import subprocess
import sys
import time

HEADS, CHANNELS = 12, 64
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
MODES = {
    "default": {},
    "kept": {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(1 << 40)},  # pages stay with the process
}
MEMORY_GOAL = 0.1


# -- the inputs of a case, and the score of one query and key in plain numbers ------------------------------------------
class Shape:
    def __init__(self, tokens, heads=HEADS, channels=CHANNELS, buckets=256, farthest=512):
        self.tokens, self.heads, self.channels = tokens, heads, channels
        self.buckets, self.farthest = buckets, farthest  # DeBERTa's


def make_inputs(torch, shape, rows, tables, per_head):
    """q, k, v as [heads, tokens, channels], then the tables."""
    random = torch.Generator().manual_seed(1)
    inputs = [torch.randn(shape.heads, shape.tokens, shape.channels, generator=random) for _ in range(3)]
    for _ in range(tables):
        size = (shape.heads, rows, shape.channels) if per_head else (rows, shape.channels)
        inputs.append(0.3 * torch.randn(size, generator=random))
    return inputs


def slopes(heads):
    """ALiBi's geometric sequence; if the heads are not a power of two, every other slope of the next sequence follows."""
    def sequence(count):
        return [2 ** (-8 * (i + 1) / count) for i in range(count)]
    whole = 1 << (heads.bit_length() - 1)
    return sequence(whole) + sequence(2 * whole)[0::2][: heads - whole]


def bucket(distance, shape):
    """DeBERTa v2 and v3: distances up to half the buckets as they are, farther ones in logarithmic steps."""
    middle, far = shape.buckets // 2, abs(distance)
    if far <= middle:
        return distance
    steps = math.ceil(math.log(far / middle) / math.log((shape.farthest - 1) / middle) * (middle - 1)) + middle
    return int(math.copysign(steps, distance))


def expected(shape, inputs, scheme):
    """The attention by its formula, one number at a time, in double."""
    import numpy as np
    q, k, v, *tables = [x.numpy().astype(np.float64) for x in inputs]
    out = np.zeros_like(q)
    n, d = shape.tokens, shape.channels
    for h in range(shape.heads):
        for i in range(n):
            scores = []
            for j in range(i + 1 if scheme == "alibi" else n):
                content = float(q[h, i] @ k[h, j])
                if scheme == "alibi":
                    scores.append(content / math.sqrt(d) - slopes(shape.heads)[h] * (i - j))
                elif scheme == "bert":
                    vector = tables[0][i - j + n - 1]
                    scores.append((content + q[h, i] @ vector + k[h, j] @ vector) / math.sqrt(d))
                else:
                    row = min(max(bucket(i - j, shape) + shape.buckets, 0), 2 * shape.buckets - 1)
                    scores.append((content + q[h, i] @ tables[0][h, row] + k[h, j] @ tables[1][h, row]) / math.sqrt(3 * d))
            weights = np.exp(np.array(scores) - max(scores))
            out[h, i] = weights / weights.sum() @ v[h, : len(scores)]
    return out


# -- the ways to write them in torch ------------------------------------------------------------------------------------
# Each makes what a model makes once for all its layers or calls, and returns the call that is timed.
def alibi_bias(torch, shape, inputs):
    """A bias for every pair, the mask inside it, made beforehand."""
    q, k, v = inputs
    places = torch.arange(shape.tokens)
    distance = (places[:, None] - places[None, :]).float()
    bias = -torch.tensor(slopes(shape.heads))[:, None, None] * distance
    bias.masked_fill_(distance < 0, -math.inf)
    scale = 1 / math.sqrt(shape.channels)
    return lambda: torch.softmax(q @ k.transpose(-1, -2) * scale + bias, -1) @ v


def alibi_baddbmm(torch, shape, inputs):
    """As BLOOM: slope times the key's position, the same for all queries, added by the product itself; then the mask."""
    q, k, v = inputs
    places = torch.arange(shape.tokens)
    alibi = torch.tensor(slopes(shape.heads))[:, None, None] * places.float()[None, None, :]
    unseen = places[None, :] > places[:, None]
    scale, least = 1 / math.sqrt(shape.channels), torch.finfo(torch.float32).min

    def call():
        scores = torch.baddbmm(alibi, q, k.transpose(-1, -2), beta=1, alpha=scale)
        return torch.bmm(torch.softmax(torch.masked_fill(scores, unseen, least), -1), v)
    return call


def bert_einsum(torch, shape, inputs):
    """As transformers did: a vector for every pair is looked up in each call, then multiplied from both sides."""
    q, k, v, table = inputs

    def call():
        places = torch.arange(shape.tokens)
        vectors = table[places[:, None] - places[None, :] + shape.tokens - 1]
        scores = q @ k.transpose(-1, -2)
        of_query = torch.einsum("bhld,lrd->bhlr", q[None], vectors)
        of_key = torch.einsum("bhrd,lrd->bhlr", k[None], vectors)
        scores = (scores[None] + of_query + of_key) / math.sqrt(shape.channels)
        return (torch.softmax(scores, -1) @ v[None])[0]
    return call


def bert_gather(torch, shape, inputs):
    """Leaner than transformers: products with the whole table, the wanted ones gathered."""
    q, k, v, table = inputs
    places = torch.arange(shape.tokens)
    rows = places[:, None] - places[None, :] + shape.tokens - 1
    of_query = rows[None].expand(shape.heads, -1, -1)
    of_key = rows.t().contiguous()[None].expand(shape.heads, -1, -1)

    def call():
        scores = q @ k.transpose(-1, -2)
        scores += torch.gather(q @ table.t(), -1, of_query)
        scores += torch.gather(k @ table.t(), -1, of_key).transpose(-1, -2)
        scores *= 1 / math.sqrt(shape.channels)
        return torch.softmax(scores, -1) @ v
    return call


def deberta_rows(torch, shape):
    span = shape.buckets
    of = torch.tensor([bucket(r, shape) for r in range(-shape.tokens + 1, shape.tokens)])
    places = torch.arange(shape.tokens)
    distance = of[places[:, None] - places[None, :] + shape.tokens - 1]
    expand = (shape.heads, -1, -1)
    return (torch.clamp(distance + span, 0, 2 * span - 1)[None].expand(expand),
            torch.clamp(-distance + span, 0, 2 * span - 1)[None].expand(expand))


def deberta_gather(torch, shape, inputs):
    """As transformers: both products with the tables, gathered, divided and added; rows and projections made beforehand."""
    q, k, v, table_key, table_query = inputs
    to_position, to_content = deberta_rows(torch, shape)
    scale = math.sqrt(3 * shape.channels)

    def call():
        scores = torch.bmm(q, k.transpose(-1, -2) / scale)
        c2p = torch.gather(torch.bmm(q, table_key.transpose(-1, -2)), -1, to_position)
        positions = c2p / scale
        p2c = torch.gather(torch.bmm(k, table_query.transpose(-1, -2)), -1, to_content).transpose(-1, -2)
        positions += p2c / scale
        return torch.bmm(torch.softmax(scores + positions, -1), v)
    return call


def deberta_lean(torch, shape, inputs):
    """Leaner than transformers: scaled once on the small sides, added in place."""
    q, k, v, table_key, table_query = inputs
    to_position, to_content = deberta_rows(torch, shape)
    scale = 1 / math.sqrt(3 * shape.channels)

    def call():
        scaled = q * scale
        scores = torch.bmm(scaled, k.transpose(-1, -2))
        scores += torch.gather(torch.bmm(scaled, table_key.transpose(-1, -2)), -1, to_position)
        scores += torch.gather(torch.bmm(k * scale, table_query.transpose(-1, -2)), -1, to_content).transpose(-1, -2)
        return torch.bmm(torch.softmax(scores, -1), v)
    return call


class Case:
    def __init__(self, kind, scheme, tokens, goal, tables, per_head, ways, extra):
        self.kind, self.scheme = kind, scheme  # the formula here; the scheme of gyre bench
        self.tokens, self.goal = tokens, goal  # the goal: torch's best of `ways` / gyre
        self.tables, self.per_head = tables, per_head
        self.ways, self.extra = ways, extra  # extra ones are shown, with no goal

    def rows(self, shape):
        return 2 * shape.buckets if self.kind == "deberta" else 2 * shape.tokens - 1

    def inputs(self, torch, shape):
        return make_inputs(torch, shape, self.rows(shape), self.tables, self.per_head)


CASES = {
    "deberta-v3": Case("deberta", "deberta-v3", 1024, 2.5, 2, True, {"gather": deberta_gather}, {"lean": deberta_lean}),
    "bert-relative-key-query": Case("bert", "bert-relative-key-query", 2048, 2.0, 1, False, {"einsum": bert_einsum},
                                    {"gather": bert_gather}),
    "alibi": Case("alibi", "alibi-causal", 2048, 2.2, 0, False, {"bias": alibi_bias, "baddbmm": alibi_baddbmm}, {}),
}


def all_ways(case):
    return {**case.ways, **case.extra}


# -- a child: one way in one malloc mode ----------------------------------------------------------------------------------
def status_bytes(field):
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(field + ":"):
                return 1024 * int(line.split()[1])
    return None


def forget_peak():
    """Resets the high-water mark of resident memory.  False if the system does not allow it."""
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")
        return True
    except OSError:
        return False


def peak_bytes(forgotten):
    return status_bytes("VmHWM") if forgotten else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def fast_blas():
    with open("/proc/self/maps", encoding="ascii", errors="replace") as file:
        text = file.read()
    return any(name in text for name in ("openblas", "mkl", "blis"))


def child(case, way, tokens):
    import torch
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    shape, little = Shape(tokens), Shape(min(64, tokens))
    with torch.inference_mode():
        way(torch, little, case.inputs(torch, little))()  # code and libraries are there before
        inputs = case.inputs(torch, shape)
        forgotten = forget_peak()
        before = status_bytes("VmRSS")
        call = way(torch, shape, inputs)
        call()
        print(json.dumps({"extra": max(0, peak_bytes(forgotten) - before), "torch": torch.__version__,
                          "fast_blas": fast_blas()}), flush=True)
        for _ in sys.stdin:  # a line asks for a round
            begun = time.perf_counter()
            call()
            print(1e3 * (time.perf_counter() - begun), flush=True)


class Child:
    def __init__(self, name, way, mode, tokens):
        self.way, self.mode, self.ms = way, mode, []
        command = [sys.executable, os.path.abspath(__file__), "--child", name, way, str(tokens)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **ONE_THREAD, **MODES[mode]})
        self.said = json.loads(self.line())

    def line(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"against_torch.py: torch ({self.way}, {self.mode} malloc): the process ended early")
        return line

    def round(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        self.ms.append(float(self.line()))

    def end(self):
        self.process.stdin.close()
        self.process.wait()


# -- the comparison -------------------------------------------------------------------------------------------------------
def check(torch):
    """The ways compute what the formulas say, or nothing is worth timing.  Small buckets: the logarithmic ones are met."""
    shape = Shape(24, heads=3, channels=8, buckets=8, farthest=16)
    for name, case in CASES.items():
        inputs = case.inputs(torch, shape)
        right = expected(shape, inputs, case.kind)
        for label, way in all_ways(case).items():
            error = float(abs(way(torch, shape, inputs)().numpy() - right).max())
            if not error < 1e-5:
                sys.exit(f"against_torch.py: {name} ({label}): {error:g} from the formula")


def gyre_round(gyre, case, tokens):
    command = [gyre, "bench", "encodings", "--json", "--threads", "1", "--rounds", "3", "--schemes", case.scheme,
               "--heads", str(HEADS), "--head-dim", str(CHANNELS), "--tokens", str(tokens)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit(f"against_torch.py: {' '.join(command)}: exit status {done.returncode}")
    return json.loads(done.stdout)


def compare(name, options):
    case = CASES[name]
    tokens = options.tokens or case.tokens
    children = [Child(name, way, mode, tokens) for way in all_ways(case) for mode in MODES]
    gyre = []
    for _ in range(options.rounds):
        for one in children:
            one.round()
        gyre.append(gyre_round(options.gyre, case, tokens))
    for one in children:
        one.end()
    if not all(one.said["fast_blas"] for one in children):
        print("against_torch.py: torch runs on a slow BLAS here (install libopenblas0): not a fair comparison", file=sys.stderr)
    # Gyre writes to memory of the caller: what torch allocates for the result counts there too.
    peaks = [one["peak_bytes"] for one in gyre if one["peak_bytes"] is not None]
    gyre_extra = max(peaks) + 4 * tokens * HEADS * CHANNELS if peaks else None
    gyre_ms = statistics.median(one["ms"] for one in gyre)
    rows = []
    for way in all_ways(case):
        ms = {one.mode: statistics.median(one.ms) for one in children if one.way == way}
        extra = min(one.said["extra"] for one in children if one.way == way)
        ratio = min(ms.values()) / gyre_ms
        memory = gyre_extra / extra if gyre_extra is not None and extra > 0 else None
        judged = way in case.ways and tokens == case.tokens
        rows.append({"case": name, "way": way, "tokens": tokens, "rounds": options.rounds, "torch_default_ms": ms["default"],
                     "torch_kept_ms": ms["kept"], "gyre_ms": gyre_ms, "ratio": ratio, "goal": case.goal if judged else None,
                     "torch_extra_bytes": extra, "gyre_extra_bytes": gyre_extra, "memory_ratio": memory,
                     "memory_goal": MEMORY_GOAL if judged else None, "torch": children[0].said["torch"]})
    return rows


HEAD = ("case", "way", "tokens", "torch ms", "kept ms", "gyre ms", "ratio", "goal", "torch MiB", "gyre MiB", "share", "goal")
FORM = "{:<24} {:<8} {:>6} {:>9} {:>9} {:>9} {:>6} {:>5} {:>10} {:>9} {:>6} {:>5}"


def print_row(row):
    def number(key, digits, unit=1):
        return "-" if row[key] is None else f"{row[key] / unit:.{digits}f}"
    missed = (row["goal"] is not None and row["ratio"] < row["goal"]) or (
        row["memory_goal"] is not None and row["memory_ratio"] is not None and row["memory_ratio"] >= row["memory_goal"])
    print(FORM.format(row["case"], row["way"], row["tokens"], number("torch_default_ms", 1), number("torch_kept_ms", 1),
                      number("gyre_ms", 1), number("ratio", 2), number("goal", 1), number("torch_extra_bytes", 1, 1 << 20),
                      number("gyre_extra_bytes", 1, 1 << 20), number("memory_ratio", 3), number("memory_goal", 1))
          + ("  missed" if missed else ""), flush=True)


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    parser.add_argument("--gyre", default=os.path.join(here, "..", "build", "release", "gyre"), help="the gyre command")
    parser.add_argument("--rounds", type=int, default=7, help="rounds; medians are compared (default: 7)")
    parser.add_argument("--cases", default=",".join(CASES), help="of " + ", ".join(CASES) + " (default: all)")
    parser.add_argument("--tokens", type=int, help="this length instead of each case's own; then there are no goals")
    parser.add_argument("--json", action="store_true", help="one line of JSON for each row")
    options = parser.parse_args()
    options.cases = options.cases.split(",")
    for name in options.cases:
        if name not in CASES:
            parser.error(f"--cases: {name} is not one of {', '.join(CASES)}")
    if options.rounds < 1:
        parser.error("--rounds: at least 1")
    if options.tokens is not None and options.tokens < 2:
        parser.error("--tokens: at least 2")
    return options


def main():
    if len(sys.argv) == 5 and sys.argv[1] == "--child":
        case = CASES[sys.argv[2]]
        return child(case, all_ways(case)[sys.argv[3]], int(sys.argv[4]))
    options = read_options()
    missing = [module for module in ("torch", "numpy") if importlib.util.find_spec(module) is None]
    if missing:
        sys.exit(f"against_torch.py: {' and '.join(missing)} missing for {sys.executable}: nothing to compare with "
                 "(Debian: apt install python3-torch, then run with /usr/bin/python3)")
    if not os.access(options.gyre, os.X_OK):
        sys.exit(f"against_torch.py: {options.gyre}: no such command (make build, or --gyre PATH)")
    import torch
    torch.set_num_threads(1)
    with torch.inference_mode():
        check(torch)
    if not options.json:
        print(f"torch {torch.__version__} and gyre, one thread, {HEADS} heads of {CHANNELS}, batch 1, float32, medians of "
              f"{options.rounds} rounds in turn\nratio: torch's better malloc mode / gyre; share: gyre's extra memory / torch's\n"
              + FORM.format(*HEAD))
    for name in options.cases:
        for row in compare(name, options):
            print(json.dumps(row), flush=True) if options.json else print_row(row)
    return 0


if __name__ == "__main__":
    sys.exit(main())
