"""Paths, and the folder of this file on the path of modules."""

import importlib.util
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
# Files that are about a framework, where that is not installed; scripts/test-python names it, ci/run python-torch installs it.
_NEEDS = {
    "test_torch_operators.py": ("torch",),
    "test_torch_parts.py": ("torch",),
    "test_torch_trained.py": ("torch",),
    "test_torch_double.py": ("torch",),
    "test_torch_device.py": ("torch", "transformers"),
    "test_torch_flex.py": ("torch", "transformers"),
    "test_torch_lengths.py": ("torch", "transformers"),
    "test_torch_shards.py": ("torch",),
    "test_torch_patch.py": ("torch", "transformers"),
    "test_audit.py": ("torch", "transformers"),
    "test_jax.py": ("jax",),
}
collect_ignore = [file for file, names in _NEEDS.items() if any(importlib.util.find_spec(name) is None for name in names)]


@pytest.fixture(scope="session")
def configs() -> Path:
    return HERE.parent / "configs"


@pytest.fixture(scope="session")
def bundled_model() -> Path:
    return HERE.parent.parent / "models" / "rope"
