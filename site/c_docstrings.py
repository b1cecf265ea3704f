"""An extension of griffe: names such as __dlpack__ in docstrings are names and not bold text."""

from __future__ import annotations

import re
from typing import Any

import griffe


def quote_dunders(of: griffe.Object) -> None:
    for member in of.members.values():
        if member.is_alias:
            continue
        if member.docstring:
            member.docstring.value = re.sub(r"(?<!`)\b(__\w+__)\b(?!`)", r"`\1`", member.docstring.value)
        quote_dunders(member)


class CDocstrings(griffe.Extension):
    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        if pkg.name == "gyre":
            quote_dunders(pkg)
