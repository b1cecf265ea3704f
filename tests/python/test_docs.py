"""The Python blocks of docs/python.md and of the README run, in order."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


@pytest.mark.parametrize("page", ["docs/python.md", "README.md"])
def test_blocks_run(page: str, monkeypatch, capsys) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("pandas")
    monkeypatch.chdir(ROOT)
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), names)  # noqa: S102
    if page == "docs/python.md":
        assert "EINVAL x x: is a list, not an array" in capsys.readouterr().out
