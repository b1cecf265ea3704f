"""Runs every case of cases.txt and validates what it prints with docs/schemas/SCHEMA.json.

    python3 check_schemas.py GYRE          prints how many outputs were valid; exit status 1 if one was not
    python3 check_schemas.py GYRE --save FOLDER    also writes the outputs to FOLDER/SCHEMA-N.json

An output of several lines is one JSON text a line.  A schema describes every key: additionalProperties is false.  It also
says what values can be: an output whose strings and integers are replaced by nonsense is refused.
"""

import json
import math
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import jsonschema
import referencing

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMAS = ROOT / "docs" / "schemas"
NAMES = SCHEMAS / "names.json"
# Keys whose values are of a set that the command knows.
NAMED = {"profile", "kind", "layout", "length_policy", "says", "basis", "clip", "match", "side", "stored", "format", "from"}

def npy(shape: tuple[int, ...], numbers: list[float]) -> bytes:
    """A .npy of float32."""
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(numbers)}f", *numbers)


# Base 10000, 64 pairs.
FREQUENCIES = [10000 ** (-i / 64) for i in range(64)]
ANGLES = [part(m * f) for m in range(32) for part in (math.cos, math.sin) for f in FREQUENCIES]

# What no file of tests/configs has: a family that a config alone names, and a scaling that transformers 5 refuses.
CONFIGS = {
    "jamba": {"model_type": "jamba"},
    "dynamic-yarn": {
        "model_type": "llama",
        "hidden_size": 64,
        "num_attention_heads": 4,
        "max_position_embeddings": 64,
        "rope_scaling": {"type": "dynamic-yarn", "factor": 4.0},
    },
}


def read_cases(tmp: str) -> Iterator[tuple[str, list[str], set[int]]]:
    """(schema, arguments, exit statuses) of each case, one for each config if it names {config}."""
    configs = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests" / "configs").glob("*.json"))
    for line in (ROOT / "tests" / "schemas" / "cases.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        schema, _, words = line.partition(" ")
        statuses = {0}
        if words.endswith("]"):
            words, _, allowed = words[:-1].rpartition("[")
            statuses |= {int(status) for status in allowed.split()}
        for config in configs if "{config}" in words else [""]:
            filled = words.format(tmp=tmp, config=config, text=f"{tmp}/text", ids=f"{tmp}/ids")
            yield schema, shlex.split(filled), statuses


def commands_with_json(gyre: str) -> set[str]:
    """The subcommands whose help lists --json."""
    help_text = subprocess.run([gyre, "--help"], capture_output=True, text=True, check=True).stdout
    names = set(re.findall(r"^  ([a-z]+)  +\S", help_text, re.MULTILINE))
    found = set()
    for name in names:
        text = subprocess.run([gyre, name, "--help"], capture_output=True, text=True).stdout
        if re.search(r"^ +(-\w, )?--json\b", text, re.MULTILINE):
            found.add(name)
    if "explain" not in found:
        sys.exit("check_schemas.py: gyre --help no longer lists its subcommands in lines of two spaces and a name")
    return found


def texts_of(output: str) -> list[object]:
    try:
        return [json.loads(output)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in output.splitlines()]


def check_is_closed(name: str, schema: object) -> None:
    """Every object with properties refuses other keys."""
    if isinstance(schema, dict):
        if "properties" in schema and schema.get("additionalProperties") is not False:
            sys.exit(f"docs/schemas/{name}.json: an object allows keys that it does not describe: {list(schema['properties'])}")
        for part in schema.values():
            check_is_closed(name, part)
    elif isinstance(schema, list):
        for part in schema:
            check_is_closed(name, part)


def check_is_bounded(name: str, schema: object) -> None:
    """Every integer has a least value, and a key of NAMED lists its values."""
    if isinstance(schema, list):
        for part in schema:
            check_is_bounded(name, part)
    if not isinstance(schema, dict):
        return
    if "integer" in schema.get("type", []) and "minimum" not in schema:
        sys.exit(f"docs/schemas/{name}.json: an integer has no minimum: {schema.get('description')}")
    for key, part in schema.get("properties", {}).items():
        if key in NAMED and "string" in part.get("type", []):
            sys.exit(f"docs/schemas/{name}.json: {key} can be any text")
    for part in schema.values():
        check_is_bounded(name, part)


def spoil(value: object, text: str | None, number: int | None) -> object:
    """The value with every string replaced by text and every integer by number; None leaves them."""
    if isinstance(value, dict):
        return {key: spoil(part, text, number) for key, part in value.items()}
    if isinstance(value, list):
        return [spoil(part, text, number) for part in value]
    if isinstance(value, str) and text is not None:
        return text
    if isinstance(value, int) and not isinstance(value, bool) and number is not None:
        return number
    return value


SPOILS = {"strings": ("zzz", None), "integers": (None, -77), "strings and integers": ("zzz", -77)}


def main() -> None:
    gyre = str(pathlib.Path(sys.argv[1]).resolve())
    saved = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else None
    names = referencing.Resource.from_contents(json.loads(NAMES.read_text()))
    registry = referencing.Registry().with_resource(NAMES.name, names)
    validators = {}
    for path in sorted(SCHEMAS.glob("*.json")):
        if path == NAMES:
            continue
        schema = json.loads(path.read_text())
        check_is_closed(path.stem, schema)
        check_is_bounded(path.stem, schema)
        jsonschema.Draft202012Validator.check_schema(schema)
        validators[path.stem] = jsonschema.Draft202012Validator(schema, registry=registry)
    valid = failed = 0
    used = set()
    tested = set()
    refused: dict[str, set[str]] = {name: set() for name in validators}
    with tempfile.TemporaryDirectory() as tmp:
        pathlib.Path(tmp, "text").write_bytes((ROOT / "include" / "gyre" / "gyre.h").read_bytes()[:60000])
        for name, config in CONFIGS.items():
            pathlib.Path(tmp, f"{name}.json").write_text(json.dumps(config))
        pathlib.Path(tmp, "angles.npy").write_bytes(npy((32, 128), ANGLES))
        pathlib.Path(tmp, "frequencies.npy").write_bytes(npy((64,), FREQUENCIES))
        pathlib.Path(tmp, "ids").write_text(" ".join(str(i * 37 % 256) for i in range(200)))
        for schema, arguments, statuses in read_cases(tmp):
            run = subprocess.run([gyre, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300)
            problem = ""
            if run.returncode not in statuses:
                problem = f"exit status {run.returncode}: {run.stderr.strip()}"
            tested.add(arguments[0])
            texts = texts_of(run.stdout) if run.stdout.strip() else []
            if run.returncode == 0 and not texts:
                problem = "nothing was printed"
            for text in texts:
                if saved:
                    with open(saved / f"{schema}.jsonl", "a", encoding="utf-8") as file:
                        print(json.dumps(text), file=file)
                else:
                    error = jsonschema.exceptions.best_match(validators[schema].iter_errors(text))
                    problem = problem or (f"{error.json_path}: {error.message[:600]}" if error else "")
                    is_valid = validators[schema].is_valid
                    refused[schema] |= {what for what, how in SPOILS.items() if not is_valid(spoil(text, *how))}
                used.add(schema)
                valid += 1
            if problem:
                failed += 1
                print(f"gyre {shlex.join(arguments)}: {problem}", file=sys.stderr)
    for name in sorted(commands_with_json(gyre) - tested):
        failed += 1
        print(f"tests/schemas/cases.txt: gyre {name} has --json and no case", file=sys.stderr)
    for name in validators.keys() - used:
        failed += 1
        print(f"docs/schemas/{name}.json: no case prints it", file=sys.stderr)
    for name in sorted(used if not saved else []):
        has_integers = '"integer"' in json.dumps(validators[name].schema)
        for what in SPOILS.keys() - refused[name] - (set() if has_integers else {"integers"}):
            failed += 1
            print(f"docs/schemas/{name}.json: accepts every output with its {what} replaced by nonsense", file=sys.stderr)
    print(f"{valid} outputs of {len(used)} schemas, {failed} cases failed")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
