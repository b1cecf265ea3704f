"""The gyre command of the wheel: running it, and functions that the C library does not offer."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gyre._encoding import Encoding, Source, as_config, json_text
from gyre._errors import Error, FileError, calling, path_text
from gyre._results import Difference, Extensions, Result


def program() -> str:
    """The path of the gyre command: that of the package, or GYRE_COMMAND of the environment."""
    named = os.environ.get("GYRE_COMMAND")
    path = Path(named) if named else Path(__file__).parent / "bin" / "gyre"
    if not path.is_file():
        raise FileError("EIO", f"command: {path} does not exist: install the package, or set GYRE_COMMAND", "command")
    return str(path)


def _audit(arguments: list[str]) -> int:
    try:
        from gyre.torch import _audit as audit
    except ImportError as why:
        print(f"gyre: --buffers: needs torch and transformers: {why}", file=sys.stderr)
        return 2
    return audit.main(arguments)


def main() -> None:
    """The entry point "gyre": becomes the command; `gyre audit --buffers` is Python code, because it checks models of torch."""
    if sys.argv[1:2] == ["audit"] and "--buffers" in sys.argv:
        sys.exit(_audit([word for word in sys.argv[2:] if word != "--buffers"]))
    path = program()
    os.execv(path, ["gyre", *sys.argv[1:]])


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a measurement.  results: what was measured before."""

    def __init__(self, results: list[dict[str, Any]]) -> None:
        super().__init__(f"{len(results)} figures were measured")
        self.results = results


def _argument(option: str) -> str:
    """What functions of Python call an option of the command."""
    return {"as": "profile", "with": "with_profile"}.get(option, option.replace("-", "_"))


def _fail(command: str, stderr: str) -> Error:
    lines = [line for line in stderr.splitlines() if line.startswith("gyre: ")]
    text = lines[-1].removeprefix("gyre: ") if lines else f"gyre {command} failed: {stderr.strip()[-300:]}"
    text = re.sub(rf" \(try gyre {command} --help\)$", "", text)
    text = re.sub(r'^method (".*?"):', r"--methods: \1 is", text)
    text = re.sub(r"(?<![\w-])--([a-z][a-z-]*)", lambda found: _argument(found[1]), text)
    return Error("EINVAL", text, text.split(":", 1)[0] if ":" in text else None)


def _relay(stream: Any, kept: list[str], show: Callable[[str], None] | None) -> None:
    for line in stream:
        kept.append(line)
        if show and "left" in line:
            show(line.strip().removeprefix("gyre: "))


def _end(process: subprocess.Popen[str]) -> None:
    """Ctrl-C for a command that is running, then its end if it does not come by itself."""
    for wanted, seconds in ((signal.SIGINT, 5), (signal.SIGINT, 2), (signal.SIGKILL, None)):
        process.send_signal(wanted)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            return


def run(
    args: Sequence[str],
    *,
    accept: tuple[int, ...] = (0,),
    line: Callable[[str], None] | None = None,
    show: Callable[[str], None] | None = None,
) -> str:
    """Runs the command and returns what it printed.

    line: called with each line of output as it comes.  show: called with each line about progress.
    Ctrl-C ends the command, and is raised again.  Raises gyre.Error with the text of the command where it fails.
    """
    errors: list[str] = []
    output: list[str] = []
    # A separate session: Ctrl-C reaches only this process, which passes it on once.
    process = subprocess.Popen(
        [program(), *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout and process.stderr
    reader = threading.Thread(target=_relay, args=(process.stderr, errors, show), daemon=True)
    reader.start()
    try:
        for text in process.stdout:
            output.append(text)
            if line:
                line(text)
        process.wait()
    except BaseException:
        _end(process)
        raise
    finally:
        reader.join(2)
        process.stdout.close()
        process.stderr.close()
    if process.returncode not in accept:
        raise _fail(args[0], "".join(errors))
    return "".join(output)


@contextlib.contextmanager
def _as_path(source: Source | Any, name: str) -> Iterator[str]:
    """The path of a config; a dict becomes a file for the time of a call."""
    source = as_config(source, name)
    if isinstance(source, Mapping):
        text = json_text(source, name)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "config.json"
            path.write_text(text, encoding="utf-8")
            yield str(path)
        return
    if not isinstance(source, (str, os.PathLike)):
        raise Error("EINVAL", f"{name}: is a {type(source).__name__}, not a path or a dict", name)
    path = Path(path_text(source, name))
    if not os.path.exists(path):
        raise FileError("EIO", f"{name}: {path} does not exist", name)
    yield str(path)


def not_empty(name: str, values: Any) -> None:
    """Refuses an empty list of names or numbers, which an option cannot say."""
    if values is not None and not isinstance(values, str) and len(values) == 0:
        raise Error("EINVAL", f"{name}: is {values!r}, a list of none", name)


def _options(**given: Any) -> list[str]:
    return [
        f"--{name.rstrip('_').replace('_', '-')}={value if not isinstance(value, (list, tuple)) else ','.join(map(str, value))}"
        for name, value in given.items()
        if value is not None
    ]


def explain(
    source: Source | Any, *, profile: str | None = None, length: int | None = None, layer_type: str | None = None
) -> Result:
    """All groups of layers of a model, as `gyre explain --json` prints them.  Arguments as in Encoding.from_config."""
    with _as_path(source, "source") as path:
        options = _options(as_=profile, length=length, layer_type=layer_type)
        return Result(json.loads(run(["explain", path, "--json", *options])))


def diff(
    a: Any,
    b: Any = None,
    *,
    profile: str | None = None,
    with_profile: str | None = None,
    length: int | None = None,
    layer_type: str | None = None,
) -> Difference:
    """Where two readings, or two encodings, give different positions, and by how much.

    Args:
        a, b: paths of configs, folders or GGUFs, or configs as dicts; b None = a itself.  Or two encodings.
        profile, with_profile: the programs that read a and b; with_profile is needed without b.
        length: the context length in use.  layer_type: one group of layers.

    Returns a dict that is true where they differ: "same", "verdict", and for each of "groups" the fields that differ, the
    largest relative difference of frequencies and its pair, and the first position with more than 0.01 rad between them.
    """
    if isinstance(a, Encoding) and isinstance(b, Encoding):
        return _diff_encodings(a, b, length)
    with _as_path(a, "a") as first, contextlib.ExitStack() as stack:
        if b is None and with_profile is None:
            raise Error("EINVAL", "b: missing, and with_profile too: pass another config, or another program that reads a", "b")
        second = [] if b is None else [stack.enter_context(_as_path(b, "b"))]
        options = _options(as_=profile, with_=with_profile, length=length, layer_type=layer_type)
        told = Difference(json.loads(run(["diff", first, *second, "--json", *options], accept=(0, 3, 4))))
        if told:
            sides = ((first, profile, "a"), (second[0] if second else first, with_profile, "b"))
            for path, reader, side in sides:
                told[f"wavelength_{side}"] = _wavelengths(path, reader, length, _first_difference(told, side))
        return told


def _first_difference(told: Difference, side: str) -> str | None:
    """The name of the first group of layers that differs."""
    for group in told.get("groups", []):
        if not group["same"]:
            name: str | None = group["name"][side]
            return name
    return None


def _wavelengths(path: str, profile: str | None, length: int | None, layer_type: str | None) -> list[float]:
    """Positions per turn of each pair, for the figure; none if a program refuses the model or nothing rotates."""
    try:
        encoding = Encoding.from_config(path, profile=profile, length=length, layer_type=layer_type)
        return [2 * math.pi / f if f else math.inf for f in encoding.frequencies(length)]
    except Error:
        return []


def _diff_encodings(a: Encoding, b: Encoding, length: int | None) -> Difference:
    one, other = a.config, b.config
    fields = [
        {"name": name, "a": {"value": one[name]}, "b": {"value": other[name]}} for name in one if one[name] != other[name]
    ]
    group: dict[str, Any] = {"name": {"a": a.kind, "b": b.kind}, "same": not fields, "fields": fields}
    told: dict[str, Any] = {"a": {"label": "a"}, "b": {"label": "b"}, "same": not fields, "groups": [group]}
    verdict = "The same." if not fields else f"Different: {', '.join(str(f['name']) for f in fields)}."
    if a.kind == b.kind == "rope" and one["rope.dim"] == other["rope.dim"]:
        x, y = a.frequencies(length), b.frequencies(length)
        gap = abs(x - y)
        pair = int(gap.argmax())
        group["max_difference"], group["max_difference_pair"] = float(gap[pair]), pair
        ratio = [max(f, g) / min(f, g) - 1 if min(f, g) > 0 else (0.0 if f == g else math.inf) for f, g in zip(x, y, strict=True)]
        group["max_relative_difference"] = float(max(ratio))
        group["pair"] = ratio.index(max(ratio))
        group["attention_factor_ratio"] = b.attention_factor(length) / a.attention_factor(length)
        group["first_position"] = math.ceil(0.01 / gap[pair]) if gap[pair] > 0 else None
        told["wavelength_a"] = [2 * math.pi / f if f else math.inf for f in x]
        told["wavelength_b"] = [2 * math.pi / f if f else math.inf for f in y]
        if gap[pair] > 0:
            verdict = f"Different from position {group['first_position']} on: pair {pair} is more than 0.01 rad off."
    told["verdict"] = verdict
    return Difference(told)


def extend(
    source: Source | Any,
    *,
    to: int,
    methods: Sequence[str] | None = None,
    method: str | None = None,
    write: str | os.PathLike[str] | None = None,
    profile: str | None = None,
    layer_type: str | None = None,
    trained: int | None = None,
    beta_fast: float | None = None,
    beta_slow: float | None = None,
) -> Extensions:
    """The ways to stretch a model's context to `to` tokens: what each does, and which programs read it alike.

    methods: rows of the table, such as ["linear", "yarn:4"]; None = all.  method and write: the config for one of them is
    written to that file or folder; everything else in it stays.  trained: tokens before any scaling.

    Returns a dict; frame() has a row for each method.
    """
    if (method is None) != (write is None):
        raise Error("EINVAL", "write: method and write belong together", "write")
    not_empty("methods", methods)
    with _as_path(source, "source") as path:
        options = _options(
            to=to,
            as_=profile,
            layer_type=layer_type,
            trained=trained,
            beta_fast=beta_fast,
            beta_slow=beta_slow,
        )
        if write is not None:
            with calling(methods="method"):
                run(["extend", path, *options, *_options(method=method, write=path_text(write, "write"))])
        return Extensions(json.loads(run(["extend", path, "--json", *options, *_options(methods=methods)])))
