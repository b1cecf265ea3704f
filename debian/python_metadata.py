"""Writes FOLDER/gyre-VERSION.dist-info/METADATA from pyproject.toml and gyre.h: what importlib.metadata and dh_python3 read."""

import re
import sys
import tomllib
from pathlib import Path

project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
header = Path("include/gyre/gyre.h").read_text(encoding="utf-8")
version = ".".join(re.findall(r"#define GYRE_VERSION_(?:MAJOR|MINOR|PATCH)\s+(\d+)", header))
folder = Path(sys.argv[1]) / f"gyre-{version}.dist-info"
folder.mkdir()
lines = [
    "Metadata-Version: 2.1",
    f"Name: {project['name']}",
    f"Version: {version}",
    f"Summary: {project['description']}",
    "License: MIT",
    f"Requires-Python: {project['requires-python']}",
    *(f"Requires-Dist: {needed}" for needed in project["dependencies"]),
]
(folder / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
