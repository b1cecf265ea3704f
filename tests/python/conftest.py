"""Paths, and the folder of this file on the path of modules."""

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))


@pytest.fixture(scope="session")
def configs() -> Path:
    return HERE.parent / "configs"


@pytest.fixture(scope="session")
def bundled_model() -> Path:
    return HERE.parent.parent / "models" / "rope"
