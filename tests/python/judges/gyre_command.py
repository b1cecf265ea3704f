"""The gyre command of the installed package, for tests in Python."""

import json
import os
import subprocess
from pathlib import Path

import gyre as package

ROOT = Path(__file__).resolve().parents[3]
GYRE = Path(os.environ.get("GYRE_COMMAND") or Path(package.__file__).parent / "bin/gyre")
CONFIGS = sorted((ROOT / "tests/configs").glob("*.json"))


class Refused(Exception):
    """The command failed; the text is its message."""


def gyre(*arguments, **options):
    """Standard output of `gyre ARGUMENTS`; raises Refused with the message if it fails."""
    done = subprocess.run([GYRE, *map(str, arguments)], capture_output=True, text=True, check=False, **options)
    if done.returncode != 0:
        raise Refused(done.stderr.strip() or f"exit status {done.returncode}")
    return done.stdout


def explain(path, profile, length):
    """The JSON of `gyre explain PATH --as PROFILE --length LENGTH`."""
    return json.loads(gyre("explain", "--json", "--as", profile, "--length", length, path))


def field(group, name):
    """The value of a group's field as text, or None."""
    return next((entry["value"] for entry in group["fields"] if entry["name"] == name), None)
