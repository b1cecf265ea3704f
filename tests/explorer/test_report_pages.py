"""Reports of the command fit the screen: nothing lies outside the page, and no table outside its place."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Browser

pytest_plugins = "explorer_fixtures"

ROOT = Path(__file__).resolve().parents[2]
GYRE = os.environ.get("GYRE", str(ROOT / "build/release/gyre"))
TEXT = str(ROOT / "include/gyre/gyre.h")
REPORTS = {
    "lab": ["lab", "--preset", "smoke", "--text", TEXT, "--seeds", "2"],
    "task": ["lab", "--preset", "smoke", "--task", "copy"],
    "eval": ["eval", str(ROOT / "models/rope"), "--text", TEXT, "--contexts", "128,256,512", "--windows", "3", "--passkey", "2",
             "--methods", "none,linear,ntk,ntk:4,yarn,yarn:4,llama3,by-parts,dynamic,ntk-mixed"],
    "passkey": ["passkey", str(ROOT / "models/rope"), "--lengths", "384,512", "--depths", "0,100", "--trials", "1", "--methods", "none,yarn"],
}
# Elements that reach past the right edge of the page, without those that scroll within their own place.
OUTSIDE = """() => [...document.querySelectorAll("main *, header *, footer *")]
    .filter(e => !e.closest("svg, pre") && e.getBoundingClientRect().right > innerWidth + 1)
    .map(e => `${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`)"""
SCROLLING = """() => [...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth + 1)
    .map(e => `${e.scrollWidth} of ${e.clientWidth}: ${e.textContent.slice(0, 60)}`)"""


@pytest.fixture(scope="module", params=REPORTS)
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp(request.param)
    path = folder / "report.html"
    command = [GYRE, *REPORTS[request.param], "--report", str(path)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return path


@pytest.mark.parametrize("width", [390, 1280, 1920])
def test_nothing_lies_outside_the_page(browser: Browser, report: Path, width: int) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(report.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    assert page.evaluate(OUTSIDE) == []
    assert page.evaluate(SCROLLING) == []
    page.close()


def test_report_begins_with_what_was_found(browser: Browser, report: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(report.as_uri())
    first, last = page.locator("main p.lead").first, page.locator("main h2").last
    assert any(digit in first.inner_text() for digit in "0123456789")
    assert first.bounding_box()["y"] < 300
    assert last.inner_text() == "How it was measured"
    assert str(ROOT) not in page.locator("main").inner_text()
    page.close()
