#!/usr/bin/env python3
"""Runs the commands in the documents and compares what they print with what the page shows.

    site/outputs.py [--all] GYRE [FILE.md...]     GYRE: the command, such as build/release/gyre

A block that begins with "$ gyre" or "$ build/release/gyre" is a command and the beginning of its output.  "..." stands for any lines; a line may end
early where columns are left out.  Numbers may differ by half a percent, and errors of rounding (1.1e-14) by a factor of three,
because processors round differently.  A block after
<!-- slow --> takes minutes and runs with --all alone.  Without files: the pages under docs/guide and docs/how-to, in both
languages, docs/index.md and docs/questions.md.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("docs/index.md", "docs/questions.md", "docs/guide/*.md", "docs/how-to/*.md", "docs/zh/index.md",
         "docs/zh/questions.md", "docs/zh/guide/*.md", "docs/zh/how-to/*.md")
COMMAND = re.compile(r"\$ (build/release/)?gyre ")
ran: dict[str, list[str]] = {}


def blocks(text: str):
    """Each block of a command: the line it begins on, the command, the expected lines, whether it is slow."""
    slow = False
    lines = text.split("\n")
    number = 0
    while number < len(lines):
        line = lines[number]
        if line.strip() and not line.startswith("```"):
            slow = line.strip() == "<!-- slow -->"
        if line.startswith("```") and number + 1 < len(lines) and COMMAND.match(lines[number + 1]):
            end = lines.index("```", number + 1)
            body = lines[number + 1 : end]
            command = body.pop(0)[2:]
            while command.endswith("\\"):
                command = command[:-1] + body.pop(0).strip()
            yield number + 2, command, body, slow
            number, slow = end, False
        number += 1


def same_token(shown: str, real: str) -> bool:
    if shown == real:
        return True
    number = re.compile(r"^[-+]?\d+(\.\d+)?$")
    if number.match(shown) and number.match(real):
        a, b = float(shown), float(real)
        return abs(a - b) <= 0.005 * max(abs(a), abs(b))
    error = re.compile(r"^\d\.\de-\d+[.,]?$")
    if error.match(shown) and error.match(real):
        a, b = float(shown.rstrip(".,")), float(real.rstrip(".,"))
        return a / 3 <= b <= 3 * a
    return False


def same_line(shown: str, real: str) -> bool:
    """Equal, or the beginning: columns at the end may be left out."""
    a, b = shown.split(), real.split()
    return len(a) <= len(b) and all(map(same_token, a, b)) and (bool(a) or not b)


def matches(shown: list[str], real: list[str]) -> str:
    """Empty, or the first line that is shown and not printed."""
    at, anywhere = 0, False
    for line in shown:
        if line.strip() == "...":
            anywhere = True
            continue
        while anywhere and at < len(real) and not same_line(line, real[at]):
            at += 1
        if at >= len(real) or not same_line(line, real[at]):
            return line or "(an empty line)"
        at, anywhere = at + 1, False
    return ""


def run(gyre: str, command: str) -> list[str]:
    if command not in ran:
        words = shlex.split(command)
        environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
        done = subprocess.run([gyre, *words[1:]], cwd=ROOT, env=environment, capture_output=True, text=True)
        if done.returncode not in (0, 3):
            return [f"(exit status {done.returncode}: {done.stderr.strip()})"]
        ran[command] = done.stdout.split("\n")
    return ran[command]


def main() -> int:
    arguments = sys.argv[1:]
    everything = "--all" in arguments
    arguments = [argument for argument in arguments if argument != "--all"]
    if not arguments:
        print(__doc__)
        return 2
    gyre = str(Path(arguments[0]).resolve())
    files = [Path(name) for name in arguments[1:]] or [path for page in PAGES for path in sorted(ROOT.glob(page))]
    wrong, checked = 0, 0
    for path in files:
        for number, command, shown, slow in blocks(path.read_text(encoding="utf-8")):
            if slow and not everything:
                continue
            checked += 1
            missing = matches(shown, run(gyre, command))
            if missing:
                wrong += 1
                print(f"{path.relative_to(ROOT) if path.is_absolute() else path}:{number}: {command}\n  does not print: {missing}")
    print(f"{checked - wrong} passed, {wrong} failed")
    return 1 if wrong or not checked else 0


if __name__ == "__main__":
    sys.exit(main())
