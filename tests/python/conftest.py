"""Tests of Gyre against other programs; ci/judges runs them."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
