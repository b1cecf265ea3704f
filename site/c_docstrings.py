"""An extension of griffe: the docstrings of the C extension, read from python/src, for the methods that _gyre.pyi declares.

The texts stand in tables of methods, as help() shows them.  Reading them keeps the page free of a build.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import griffe

SOURCES = Path(__file__).resolve().parent.parent / "python/src"
CLASSES = {"py_encoding.c": "Encoding", "py_cache.c": "Cache", "py_model.c": "Context", "py_module.c": ""}
METHOD = re.compile(r'(?:FAST\(|\{)"(\w+)",\s*[^"{};]*?((?:"(?:[^"\\]|\\.)*"\s*)+)[)}]')
ARGUMENT = re.compile(r"^\w+(, \w+)*: ")


def c_string(literals: str) -> str:
    parts = re.findall(r'"((?:[^"\\]|\\.)*)"', literals)
    return "".join(parts).replace("\\n", "\n").replace('\\"', '"')


def as_google(text: str) -> str:
    """The paragraph of arguments under the heading that the reader of docstrings knows."""
    paragraphs = text.split("\n--\n\n")[-1].split("\n\n")
    for number, paragraph in enumerate(paragraphs):
        lines = paragraph.split("\n")
        if len(lines) > 1 and ARGUMENT.match(lines[0]) and all(ARGUMENT.match(x) or x.startswith("  ") for x in lines):
            paragraphs[number] = "Args:\n    " + re.sub(r"\n +", " ", paragraph).replace("\n", "\n    ")
    return "\n\n".join(paragraphs)


def quote_dunders(of: griffe.Object) -> None:
    """__dlpack__ is a name and not bold text."""
    for member in of.members.values():
        if member.is_alias:
            continue
        if member.docstring:
            member.docstring.value = re.sub(r"(?<!`)\b(__\w+__)\b(?!`)", r"`\1`", member.docstring.value)
        quote_dunders(member)


class CDocstrings(griffe.Extension):
    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        if pkg.name != "gyre":
            return
        for file, class_name in CLASSES.items():
            for name, literals in METHOD.findall((SOURCES / file).read_text(encoding="utf-8")):
                path = f"_gyre.{class_name}.{name}" if class_name else f"_gyre.{name}"
                text = as_google(c_string(literals))
                try:
                    member = pkg[path]
                except KeyError:
                    continue
                if not name.startswith("_") and text:
                    member.docstring = griffe.Docstring(text, parent=member, parser="google")
        quote_dunders(pkg)
