"""The commands in the documents, and the rules by which site/outputs.py checks each of them.

A command is a line of a block of code that runs gyre or a script of evidence/, or the code `gyre ...` in a sentence.  By the
first of these that applies it is

    parsed     a rule of LONG matches it: gyre reads its options (gyre help --parse) and runs nothing.  What the page shows of it
               is compared with the stored output of its rule
    drawn      gyre plot with -o docs/figures/NAME.svg: scripts/figures draws it
    compared   its block begins with "$", or a table of its numbers follows: it runs, and its output is compared with the page
    run        any other line of a block, and gyre show and plot in the list of articles.md: it runs in a folder of stand-ins,
               and has to succeed
    parsed     a command in a sentence of any other page
"""

from __future__ import annotations

import json
import re
import shlex
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GPL = Path("/usr/share/common-licenses/GPL-3")


@dataclass(frozen=True)
class Long:
    """Commands that are parsed and not run."""

    pattern: str  # of the command
    why: str
    stored: str = ""  # the file with what the command printed; empty: there is none
    runs: bool = False  # with site/outputs.py --all
    parses: bool = True


LONG = (
    Long(r"gyre eval models/alibi --text war_and_peace", "reads a novel", "evidence/stretched-slopes.txt"),
    Long(r"gyre eval models/rope --text war_and_peace", "reads a novel", "evidence/length-policies.txt"),
    Long(r"gyre eval .*--methods none,ntk,dynamic,dynamic:2", "ten methods over a whole text: minutes",
         "evidence/dynamic-scales.txt", runs=True),
    Long(r"gyre eval .*--methods none,linear,ntk,by-parts,llama3,yarn,rerope", "eight methods over a whole text: minutes",
         "docs/figures/eval-methods.json", runs=True),
    Long(r"gyre (convert|eval) .*(stories260K|stream\.txt)", "needs a published model", "evidence/stories260K.txt"),
    Long(r"gyre (train|eval) .*(short|long)-(rope|alibi)", "trains for minutes"),
    Long(r"evidence/dynamic-tuned", "trains on the headers of the system", "evidence/dynamic-tuned.txt"),
    Long(r"gyre lab .*--preset questions", "trains for 20 minutes"),
    Long(r".*(encodings? rope,ramp|encoding ramp)", "ramp is the scheme that a reader of adding-a-scheme.md adds", parses=False),
    Long(r"gyre (lab|train)\b", "trains or measures for minutes; tables of the lab are written by evidence/lab"),
    Long(r"gyre search\b", "measures for minutes to hours"),
    Long(r"gyre bench\b", "times this machine"),
    Long(r"gyre explore\b", "opens a browser; test_explore.c runs it"),
    Long(r"gyre (eval|passkey) (MODEL|FOLDER)", "thousands of tokens: minutes"),
    Long(r"gyre extend .*--text book.txt", "needs a text of some hundred thousand tokens"),
    Long(r"gyre audit --buffers", "only the command of the Python package has it", parses=False),
    Long(r"gyre .*SmolLM2", "needs a published model; ci/run real runs it"),
    Long(r"gyre generate MODEL", "needs a model that chats or reads thousands of tokens; ci/run real runs it"),
    Long(r"mpirun|srun", "needs MPI; ci/run mpi-commands runs such lines"),
    Long(r"evidence/(run|tables)", "trains for hours"),
)

# Parts of lines that no two runs have in common.
VARIES = {r"evidence/exp-and-pow": r" +\d+\.\d(?=( +\d+){3}$)"}  # nanoseconds

# What stands in for a name in a command that is an example: another word, or a file of the folder in which it runs.
NAMES = {"MODEL": "rope", "FOLDER": "folder", "KIND": "clock", "[MODEL]": "", "QUESTION": "shift", "NAME": "rotate", "x": "rope",
         "SUBCOMMAND": "eval", "N": "4k", "B": "500000", "F": "book.txt", "none+start:n": "none+start:4", "$SLURM_CPUS_PER_TASK": "4"}  # fmt: skip
KINDS = {"--draft": "auto"}  # of KIND, after an option
COPIES = {
    "book.txt": GPL,
    "other.txt": GPL,
    "config.json": "tests/configs/llama-3.1-8b.json",
    "run.yaml": "tests/trainers/axolotl-yarn.yaml",
    "base.json": "docs/figures/eval-methods.json",
    "tuned.json": "docs/figures/eval-methods.json",
    "five.json": "docs/figures/lab-methods.json",
    "OUTPUT": "models/rope",
    "folder": "models/rope",
    "models": "models",
    "tests": "tests",
    "docs": "docs",
}


def make_files(folder: Path) -> None:
    """What has to be made: a draft head, and a table of frequencies of models/rope."""
    head = json.loads((ROOT / "tests/configs/llama-3.1-8b.json").read_text(encoding="utf-8"))
    (folder / "eagle3").write_text(json.dumps({**head, "draft_vocab_size": 32000}), encoding="utf-8")
    table = struct.pack("<16f", *(10000 ** (-i / 16) for i in range(16)))
    header = json.dumps({"inv_freq": {"dtype": "F32", "shape": [16], "data_offsets": [0, len(table)]}}).encode()
    (folder / "cache.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + table)


@dataclass
class Command:
    page: Path
    line: int
    text: str  # as on the page, on one line, without "$ "
    way: str  # block, sentence
    shown: list[str] = field(default_factory=list)  # of its output
    leaves_out: bool = False  # columns, and lines
    table: list[str] = field(default_factory=list)  # rows that follow its block

    @property
    def words(self) -> list[str]:
        """As a shell reads it, up to a redirection or the next command."""
        lexer = shlex.shlex(self.text, posix=True, punctuation_chars="<>|&;")
        lexer.whitespace_split = True
        words = []
        for word in lexer:
            if set(word) <= set("<>|&;"):
                break
            words.append(word)
        return words

    def is_run(self) -> bool:
        """Whether a command in a sentence runs, too."""
        whole = r"gyre (show|plot) (?!attention|perplexity|passkey|copying|QUESTION|KIND)"
        return self.page.name == "articles.md" and bool(re.match(whole, self.plain))

    def names_option(self) -> bool:
        """Whether a sentence names an option of a subcommand, or of one of its kinds, and is no command to type."""
        return self.way == "sentence" and bool(re.fullmatch(r"gyre ((bench|plot) )?[a-z]+ --[a-z-]+", self.plain))

    def statuses(self) -> tuple[int, ...]:
        """Exit statuses of a command that is right; 3 and 4 say what diff and audit find."""
        return (0, 3, 4) if re.match(r"gyre (diff|audit)", self.plain) else (0,)

    def long(self) -> Long | None:
        return next((rule for rule in LONG if re.match(rule.pattern, self.plain)), None)

    @property
    def plain(self) -> str:
        return " ".join(self.words).removeprefix("build/release/")

    def parsed(self) -> list[str]:
        """Arguments of gyre, without those of a launcher; empty for a script."""
        words = self.words
        at = next((i for i, word in enumerate(words) if word.split("/")[-1] == "gyre"), len(words))
        given = [NAMES.get(word, word) for word in words[at + 1 :]]
        for i, word in enumerate(words[at + 1 :]):
            given[i] = KINDS.get(words[at + i], given[i]) if word == "KIND" else given[i]
        return [word for word in given if word]


LINE = re.compile(r"(?:\$ )?((?:mpirun|srun) .*gyre .*|(?:build/release/)?gyre [a-z].*|evidence/[\w-]+.*)")
SENTENCE = re.compile(r"(?<!`)`(gyre [a-z][^`]*)`")


def pages() -> list[Path]:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    skipped = ("tests/", "docs/schemas/", "CHANGELOG.md")
    return [ROOT / name for name in sorted(names) if not name.startswith(skipped) and (ROOT / name).exists()]


TABLE = "<!-- of the command above -->"


def table_after(lines: list[str], at: int) -> list[str]:
    """Rows of the table, or lines of the block, with the numbers of a block that ends before line `at`."""
    while at < len(lines) and not lines[at].startswith("```") and lines[at] != TABLE:
        at += 1
    if at == len(lines) or lines[at] != TABLE:
        return []
    at += 1
    while not lines[at]:
        at += 1
    if lines[at].startswith("```"):
        return lines[at + 1 : lines.index("```", at + 1)]
    rows = []
    while at < len(lines) and lines[at].startswith("| "):
        rows.append(lines[at])
        at += 1
    return rows[2:]


def commands_of_block(page: Path, number: int, body: list[str]) -> list[Command]:
    """number: of the first line of the body.  A block that begins with "$ " is one command and its output."""
    found, at = [], 0
    while at < len(body):
        start, text = at, body[at]
        while text.endswith("\\") and at + 1 < len(body):
            at += 1
            text = text[:-1].rstrip() + " " + body[at].strip()
        at += 1
        match = LINE.fullmatch(text.strip())
        if not match:
            continue
        synopsis = re.match(r"(gyre [a-z]+) {2,}[^#]", text)  # and what the subcommand is for
        found.append(Command(page, number + start, synopsis[1] if synopsis else match[1], "sentence" if synopsis else "block"))
        shows = text.startswith("$ ") or (at + 1 < len(body) and not body[at].strip())  # a blank line, and what it prints
        if shows:
            found[-1].leaves_out = not text.startswith("$ ")
            found[-1].shown = body[at + found[-1].leaves_out :]
            break
    return found


def commands(page: Path) -> list[Command]:
    found, lines, at = [], page.read_text(encoding="utf-8").split("\n"), 0
    while at < len(lines):
        fence = re.match(r" *(`{3,})", lines[at])
        if fence:
            end = next(i for i in range(at + 1, len(lines)) if lines[i].strip() == fence[1])
            if lines[at].strip()[3:] in ("", "sh", "text"):
                found += commands_of_block(page, at + 2, lines[at + 1 : end])
                if found and found[-1].line > at:
                    found[-1].table = table_after(lines, end + 1)
            at = end
        else:
            found += [Command(page, at + 1, text, "sentence") for text in SENTENCE.findall(lines[at])]
        at += 1
    return found
