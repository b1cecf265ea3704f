"""Compares what trace_types left in a folder with the gyre command, and writes FOLDER/census.json and a list.

    python -m census.compare_types FOLDER

GYRE_COMMAND is the command; without it, that of the installed package.  The end status is 1 where a type differs, or is
refused although it rotates, that known_differences.toml does not list, or no longer differs as it is listed there.
"""

import collections
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

from census import census_compare

KNOWN = Path(__file__).parent / "known_differences.toml"
PROFILE = "hf-5"


def command():
    if "GYRE_COMMAND" in os.environ:
        return os.environ["GYRE_COMMAND"]
    import gyre

    return Path(gyre.__file__).parent / "bin/gyre"


def explain(gyre, path, length):
    """(reading, None), or (None, the refusal) without the names of program and file."""
    arguments = [gyre, "explain", "--json", "--as", PROFILE, "--length", str(length), path.name]
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, cwd=path.parent)
    if done.returncode == 0:
        return json.loads(done.stdout), None
    return None, (done.stderr.strip() or f"exit status {done.returncode}").removeprefix("gyre: ")


def in_short(reading):
    """A reading's groups in a line."""
    out = []
    for group in reading["groups"]:
        layers = census_compare.ranges(group["layers"]) if group["layers"] else "all"
        text = f"{group['name']} ({layers}): {group['encoding']}"
        if group["inv_freq"]:
            turning = 2 * sum(frequency != 0 for frequency in group["inv_freq"])
            text += f", {turning} of {group['head_dim']}, {group['layout']}, base {group['base']:g}"
            if census_compare.field(group, "axes_layout"):
                text += f", axes {census_compare.field(group, 'sections')} {census_compare.field(group, 'axes_layout')}"
            if abs(group["attention_factor"] - 1) > 1e-6:
                text += f", factor {group['attention_factor']:.6g}"
        out.append(text)
    return out


def turns_in_short(traced):
    out = []
    for turn in traced["runs"][0]["turns"] if "runs" in traced else []:
        total = traced["lists"].get(turn["stack"])
        layers = f" {census_compare.ranges(turn['layers'])} of {total}" if turn["layers"] else ""
        out.append(f"{turn['stack']}{layers}: {turn['by']}: {census_compare.in_words(turn)}")
    return out


def row_of(gyre, folder, traced):
    path = folder / "configs" / traced["type"] / "config.json"
    lengths = [run["length"] for run in traced.get("runs", [])] or [4096]
    readings, refusal = [], None
    for length in lengths if path.exists() else []:
        reading, refusal = explain(gyre, path, length)
        if refusal is not None:
            break
        readings.append(reading)
    result, texts, beside = census_compare.compare(traced, readings, refusal)
    return {
        "type": traced["type"], "class": traced["class"], "model": traced.get("model"), "result": result, "texts": texts,
        "beside": beside, "turns": turns_in_short(traced), "stopped": [run["stopped"] for run in traced.get("runs", [])][:1],
        "unknown": bool(readings) and census_compare.is_unknown(readings[0]), "refusal": refusal,
        "relative": [name for _, name, _ in traced["runs"][0]["relative"]] if "runs" in traced else [],
        "gyre": in_short(readings[0]) if readings else [], "doubts": [w["text"] for w in readings[0]["warnings"]] if readings else [],
    }  # fmt: skip


def load_known(path=KNOWN):
    return tomllib.loads(path.read_text())


def judge(rows, known):
    """Complaints: types that differ or are refused and are not listed, or are listed otherwise; and their reasons in rows."""
    complaints = []
    for row in rows:
        listed = known.get(row["type"])
        texts = row["texts"] if row["result"] in ("differs", "refused") else []
        if listed is None:
            complaints += [f"{row['type']}: {text}" for text in texts]
            continue
        row["reason"] = listed["reason"]
        complaints += [f"{row['type']}: {text}" for text in texts if not any(part in text for part in listed["differs"])]
        gone = [part for part in listed["differs"] if not any(part in text for text in texts)]
        complaints += [f"{row['type']}: listed in {KNOWN.name}, but no longer so: {part}" for part in gone]
    return complaints


def main():
    folder = Path(sys.argv[1])
    about = json.loads((folder / "about.json").read_text())
    gyre = command()
    rows = [row_of(gyre, folder, json.loads((folder / "types" / f"{name}.json").read_text())) for name in sorted(about["traced"])]
    complaints = judge(rows, load_known())
    (folder / "census.json").write_text(json.dumps({**about, "profile": PROFILE, "rows": rows}, indent=1))
    counts = collections.Counter(row["result"] for row in rows)
    print(f"census: transformers {about['transformers']}: " + ", ".join(f"{n} {result}" for result, n in counts.most_common()))
    print("\n".join(complaints), end="\n" if complaints else "")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
