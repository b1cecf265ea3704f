"""Traces the models of types of transformers, and writes what each rotates, and its saved config, to a folder.

    python -m census.trace_types FOLDER [TYPE...]       without TYPE, all types whose models have to do with positions

Each type is traced in a process with limits on time and memory.  A type whose file is there, made by this source, is left.
"""

import contextlib
import hashlib
import json
import os
import re
import resource
import signal
import sys
import time
import traceback
from pathlib import Path

import torch
import transformers
from census import census_models, light_model, rotation_trace
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

LENGTHS = (4096, 32768, 131072)
SECONDS = 120  # of the processor, for one type
BYTES = 12 << 30  # of address space
PROCESSES = 2
SOURCE = re.compile(r"rotary|rope|rotate_|relative|alibi|rel_pos|position_bias", re.IGNORECASE)
PLACE = re.compile(r"(?:^|\.)(\d+)(?=\.|$)")


def made_by():
    """A number of the source that makes the files."""
    digest = hashlib.sha256(f"{torch.__version__} {transformers.__version__}".encode())
    for name in ("light_model", "rotation_matrix", "rotation_trace", "census_models", "trace_types"):
        digest.update((Path(__file__).parent / f"{name}.py").read_bytes())
    return digest.hexdigest()[:16]


def place_of(path):
    """(list of layers, index in it) of the outermost list that a module's path goes through; index None: through none."""
    found = PLACE.search(path)
    return (path[: found.start()], int(found.group(1))) if found else (path, None)


def rounded(numbers):
    return [float(f"{n:.9g}") for n in numbers]


def turn_of(call):
    """What a call did, in the form of the file."""
    effect = call.effect
    out = {"function": call.function, "by": call.module.rsplit(".", 1)[-1]}
    if isinstance(effect, str):
        return {**out, "why_not": effect}
    low = min(first for first, _ in effect.pairs)
    pairs = [[first - low, second - low] for first, second in effect.pairs]
    out |= {"width": effect.channels, "first_channel": low, "pairs": pairs, "moved": effect.moved, "factor": effect.factor}
    if call.axes == 0:
        return {**out, "angles": [rounded(each) for each in effect.angles]}
    at = [[angles[1 + axis] for axis in range(call.axes)] for angles in effect.angles]
    axis = [max(range(call.axes), key=lambda a, each=each: abs(each[a])) for each in at]
    return {**out, "axes": call.axes, "axis": axis, "frequencies": rounded(each[a] for each, a in zip(at, axis))}


def run_of(trace, length):
    turns = {}
    for call in trace.calls:
        stack, index = place_of(call.module)
        turn = {"stack": stack, **turn_of(call)}
        layers = turns.setdefault(json.dumps(turn), [])
        if index is not None and index not in layers:
            layers.append(index)
    entered = {}
    for path in trace.entered:
        stack, index = place_of(path)
        if index is not None:
            entered.setdefault(stack, set()).add(index)
    relative = sorted({(place_of(path)[0], name, numbers) for path, name, numbers in trace.relative})
    return {
        "length": length,
        "turns": [{**json.loads(turn), "layers": layers} for turn, layers in turns.items()],
        "entered": {stack: sorted(layers) for stack, layers in sorted(entered.items())},
        "relative": [[stack, name, dict(numbers)] for stack, name, numbers in relative],
        "stopped": trace.stopped,
    }


def where(error):
    frame = traceback.extract_tb(error.__traceback__)[-1]
    text = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {text[:200]} ({Path(frame.filename).name}:{frame.lineno})"


def run(model, way, length):
    with rotation_trace.Tracer(model, length) as tracer, torch.no_grad(), light_model.NoProducts():
        try:
            model(**way)
        except Exception as error:
            tracer.trace.stopped = where(error)
    return tracer.trace


def best_way(model, config):
    """(call, length, trace) of the call that runs to its end, or else of the one that rotates in most layers.

    Tables of cosines and sines end before the positions of the census: they are run at their first tokens.
    """
    tried = []
    for length in (LENGTHS[0], census_models.TOKENS):
        for way in census_models.calls(model, config):
            trace = run(model, way, length)
            if trace.stopped is None:
                return way, length, trace
            tried.append((len({call.module for call in trace.calls}), -len(tried), way, length, trace))
    if not tried:
        raise census_models.CannotBuild("its model takes neither tokens nor images nor sounds that are known here")
    calls, _, way, length, best = max(tried, key=lambda each: each[:2])
    if not calls:
        raise census_models.CannotBuild(f"it does not run: {tried[0][-1].stopped}")
    return way, length, best


def runs_of(model, config):
    """What a model does at each length; at one alone where it has positions of its own or none."""
    way, length, first = best_way(model, config)
    runs = [run_of(first, length)]
    if length != LENGTHS[0] or not any("frequencies" in turn for turn in runs[0]["turns"]):
        return runs
    return runs + [run_of(run(model, way, each), each) for each in LENGTHS[1:]]


def trace(name, folder):
    """What a type's model does, as the file has it."""
    config = census_models.config_of(name)
    out = {"type": name, "class": type(config).__name__}
    try:
        config.save_pretrained(folder / "configs" / name)
    except Exception as error:
        return {**out, "why_not": f"its config is not saved: {where(error)}"}
    try:
        model, config = census_models.build_or_text_part(config)
        out["model"] = type(model).__name__
        out["lists"] = {p: len(m) for p, m in model.named_modules() if isinstance(m, torch.nn.ModuleList)}
        return {**out, "runs": runs_of(model, config)}
    except census_models.CannotBuild as why:
        return {**out, "why_not": str(why)}


def trace_in_child(name, folder, source):
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    start = time.process_time()
    try:
        out = trace(name, folder)
    except Exception as error:
        out = {"type": name, "class": CONFIG_MAPPING[name].__name__, "why_not": where(error)}
    write(folder, {**out, "made_by": source, "seconds": round(time.process_time() - start, 1)})


def write(folder, out):
    path = folder / "types" / f"{out['type']}.json"
    path.with_suffix(".tmp").write_text(json.dumps(out))
    path.with_suffix(".tmp").rename(path)


def is_there(folder, name, source):
    with contextlib.suppress(OSError, ValueError):
        return json.loads((folder / "types" / f"{name}.json").read_text())["made_by"] == source
    return False


def wait(running, folder, source):
    child, status = os.wait()
    name = running.pop(child)
    if status != 0 or not is_there(folder, name, source):
        ended = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {status >> 8}"
        why = f"its process ended by {ended} ({SECONDS} s and {BYTES >> 30} GiB are the limits)"
        write(folder, {"type": name, "class": CONFIG_MAPPING[name].__name__, "made_by": source, "seconds": SECONDS, "why_not": why})


def warm_up():
    """Imports in this process what nearly every type needs."""
    for name in ("llama", "mixtral", "qwen2_vl"):
        census_models.classes_beside(CONFIG_MAPPING[name]())
    _ = transformers.MODEL_MAPPING


def trace_all(folder, names, source):
    running = {}
    start = time.monotonic()
    sys.stdout.flush()
    for done, name in enumerate(names):
        while len(running) >= PROCESSES:
            wait(running, folder, source)
        child = os.fork()
        if child == 0:
            try:
                trace_in_child(name, folder, source)
            finally:
                os._exit(0)
        running[child] = name
        if done % 25 == 0:
            print(f"census: {done} of {len(names)} types, {time.monotonic() - start:.0f} s", flush=True)
    while running:
        wait(running, folder, source)


def main():
    folder = Path(sys.argv[1])
    (folder / "types").mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    source = made_by()
    names = sys.argv[2:] or [name for name in CONFIG_MAPPING if SOURCE.search(census_models.modeling_files(name))]
    left = [name for name in names if not is_there(folder, name, source)]
    warm_up()
    trace_all(folder, left, source)
    about = {"transformers": transformers.__version__, "torch": torch.__version__, "types": len(list(CONFIG_MAPPING)), "traced": names}
    (folder / "about.json").write_text(json.dumps(about))


if __name__ == "__main__":
    main()
