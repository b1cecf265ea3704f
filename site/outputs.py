#!/usr/bin/env python3
"""Checks every command in the documents, in both languages, and compares what it prints with what the page shows.

    site/outputs.py [--all] [--list] GYRE [FILE.md...]     GYRE: the command, such as build/release/gyre

site/command_rules.py finds the commands, and has the rules by which each is run, compared or only parsed.  --list prints the
commands with the way each is checked, and the reason of those that are not run.  --all also runs the long ones
that need nothing but this machine, for minutes.

A block that begins with "$" is a command and the beginning of its output.  "..." stands for any lines; a line may end early where
columns are left out.  Numbers may differ by half a percent, and errors of rounding (1.1e-14) by a factor of three, because
processors round differently.  Where a block has no "$", and a blank line between a command and its output, columns may be left out
anywhere.  Of a table after <!-- of the command above -->, the numbers of each row have to be in the output.
Without files: all pages.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from command_rules import COPIES, GPL, ROOT, VARIES, Command, commands, make_files, pages

NUMBER = re.compile(r"(?<![\w.:])[-+]?\d+(?:\.\d+)?(?:e-?\d+)?")
ENVIRONMENT = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", "OPENBLAS_NUM_THREADS": "1"}
TEXT_BYTES = 8192  # of a text that stands in for a book


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


def close(shown: str, real: str) -> bool:
    """As many digits as are shown, or half a percent."""
    digits = len(shown.partition(".")[2]) if "e" not in shown else 0
    a, b = float(shown), float(real)
    return same_token(shown, real) or abs(a - b) <= max(0.505 * 10**-digits, 0.005 * abs(b))


def missing_row(table: list[str], real: list[str]) -> str:
    """Empty, or the first row of the table whose numbers were not printed: those outside of brackets in one line, in their order,
    and those inside, which gyre prints in a table of intervals, likewise.  Lines that begin with the row's name are looked at,
    if there are any."""

    def is_in(numbers: list[str], line: str) -> bool:
        printed = iter(NUMBER.findall(line))
        return all(any(close(number, one) for one in printed) for number in numbers)

    for row in table:
        _, first, rest = row.split("|", 2) if row.startswith("|") else ("", *re.match(r"(\S*)(.*)", row).groups())
        name = re.match(r"[\s`]*([\w:-]*)", first)[1]
        lines = [line for line in real if name and line.split()[:1] == [name]] or real
        inside = NUMBER.findall(" ".join(re.findall(r"[(（](.*?)[)）]", rest)))
        outside = NUMBER.findall(re.sub(r"[(（].*?[)）]|`[^`]*`", "", rest))
        if not any(is_in(outside, line) for line in lines) or not any(is_in(inside, line) for line in lines):
            return row
    return ""


class Runner:
    def __init__(self, gyre: str, scratch: Path) -> None:
        self.gyre, self.scratch = gyre, scratch
        self.printed: dict[tuple[str, bool], tuple[int, str, str]] = {}
        for name, source in COPIES.items():
            if source == GPL:
                (scratch / name).write_bytes(GPL.read_bytes()[:TEXT_BYTES])
            else:
                (scratch / name).symlink_to(ROOT / source)
        make_files(scratch)
        self.process([gyre, "convert", "models/rope", "-o", str(scratch / "model.gguf")], ROOT)

    def process(self, words: list[str], folder: Path) -> tuple[int, str, str]:
        done = subprocess.run(words, cwd=folder, env={**ENVIRONMENT, "GYRE": self.gyre}, capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr.strip()

    def run(self, command: Command, here: bool) -> tuple[int, str, str]:
        """here: in the repository, as printed; else in the folder of stand-ins."""
        key = (command.plain, here)
        if key not in self.printed:
            if command.plain.startswith("evidence/"):
                self.printed[key] = self.process(command.words, ROOT)
            else:
                words = command.words[1:] if here else [*command.parsed(), *self.forced(command)]
                self.printed[key] = self.process([self.gyre, *words], ROOT if here else self.scratch)
        return self.printed[key]

    def forced(self, command: Command) -> list[str]:
        """A page's file may be there from another page."""
        words = command.words
        return ["--force"] if {"-o", "--output", "--write", "--report"} & set(words) and "--force" not in words else []

    def parse(self, command: Command) -> str:
        """Empty, or what is wrong with the options.  A sentence that only names an option leaves out its value."""
        if command.plain.startswith("evidence/"):
            return "" if (ROOT / command.words[0]).exists() else "no such script"
        if command.parsed()[:1] in (["help"], ["version"]):
            return ""
        status, _, error = self.process([self.gyre, "help", "--parse", *command.parsed()], ROOT)
        names = command.names_option() and re.search(r": its value \S+ is missing \(try", error)
        return "" if status == 0 or names else error


def stored_lines(path: Path) -> list[str]:
    """What a stored run printed.  Of the JSON of gyre eval, its table of perplexities."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".json":
        return text.split("\n")
    results = json.loads(text)["results"]
    rows: dict[str, dict[int, str]] = {}
    for result in results:
        rows.setdefault(result["label"], {})[result["context"]] = f"{result['perplexity']:.3f}"
    head = "method " + " ".join(map(str, next(iter(rows.values()))))
    return ["", head, *(" ".join([name, *row.values()]) for name, row in rows.items())]


def is_part(shown: str, real: list[str]) -> bool:
    """Whether the words of a line are in one line of the output, in their order."""
    for line in real:
        words = iter(line.split())
        if all(any(same_token(word, one) for one in words) for word in shown.split()):
            return True
    return False


def compare(command: Command, lines: list[str]) -> str:
    pattern = next((varies for of, varies in VARIES.items() if re.match(of, command.plain)), None)

    def steady(text: list[str]) -> list[str]:
        return [re.sub(pattern, "", line) for line in text] if pattern else text

    if command.leaves_out:
        missing = next((line for line in command.shown if line.strip() and not is_part(line, lines)), "")
    else:
        missing = matches(steady(command.shown), steady(lines)) if command.shown else ""
    return missing or missing_row(command.table, lines)


def check(command: Command, runner: Runner, everything: bool) -> tuple[str, str]:
    """The way a command is checked, and what is wrong; empty if nothing is."""
    rule = command.long()
    if rule and not (everything and rule.runs):
        wrong = runner.parse(command) if rule.parses else ""
        if not wrong and (command.shown or command.table):
            if not rule.stored:
                return "parsed without a stored output", ""
            stored = ROOT / rule.stored
            wrong = compare(command, stored_lines(stored)) if stored.exists() else f"{rule.stored} is not there"
        return f"parsed: {rule.why}", wrong
    if command.way == "sentence" and not command.is_run():
        return "parsed", runner.parse(command)
    if " -o docs/figures/" in command.plain and "/docs/" in str(command.page):
        return "drawn by scripts/figures", ""
    shows = bool(command.shown or command.table)
    status, out, error = runner.run(command, here=shows)
    if status not in command.statuses():
        return "run", f"exit status {status}: {error}"
    return ("compared", compare(command, out.split("\n"))) if shows else ("run", "")


def main() -> int:
    options = {word for word in sys.argv[1:] if word.startswith("--")}
    arguments = [word for word in sys.argv[1:] if not word.startswith("--")]
    if not arguments or options - {"--all", "--list"}:
        print(__doc__)
        return 2
    gyre = str(Path(arguments[0]).resolve())
    counts: dict[str, int] = {}
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(gyre, Path(folder))
        for page in [Path(name).resolve() for name in arguments[1:]] or pages():
            for command in commands(page):
                way, fault = check(command, runner, "--all" in options)
                place = f"{page.relative_to(ROOT)}:{command.line}: {command.text}"
                if "--list" in options:
                    print(f"{place}\n  {way}")
                if fault:
                    wrong += 1
                    print(f"{place}\n  {way}: {fault}")
                counts[way.partition(":")[0]] = counts.get(way.partition(":")[0], 0) + 1
    print(", ".join(f"{count} {way}" for way, count in sorted(counts.items())) + f"; {wrong} wrong")
    return 1 if wrong or not counts else 0


if __name__ == "__main__":
    sys.exit(main())
