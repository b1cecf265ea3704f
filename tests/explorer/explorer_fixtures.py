"""The page in Debian's Chromium, and the native command that its numbers are compared with.

GYRE_EXPLORER names the page (default: build/explorer/explorer.html), GYRE the command (default: build/release/gyre).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
VIEWS = ("clock", "map", "waves", "helix", "decay", "bias", "yours", "model", "attention")
# A model reads a window under one method in seconds; a busy machine needs more.
PATIENCE = 180_000


@pytest.fixture(scope="session")
def page_file() -> Path:
    path = Path(os.environ.get("GYRE_EXPLORER", ROOT / "build/explorer/explorer.html")).resolve()
    assert path.is_file(), f"{path}: no page; make explorer builds it"
    return path


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    assert program, "chromium: not found; scripts/install-deps --explorer installs it"
    with sync_playwright() as driver:
        # Root may not use Chromium's sandbox, and containers run as root; the page is ours.
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


Opener = Callable[..., Page]


@pytest.fixture
def open_page(browser: Browser, page_file: Path) -> Iterator[Opener]:
    """out = a function that opens the page from disk with a state in its address.

    Whatever the page writes on the console as an error, throws, or asks the network for fails the test.
    """
    contexts = []
    complaints: list[str] = []

    def opened(state: str = "", width: int = 1280, height: int = 900, path: Path = page_file, **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, locale="en-US", **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("console", lambda message: message.type in ("error", "warning") and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: request.url.startswith("http") and complaints.append(request.url))
        page.goto(f"{path.as_uri()}#{state}")
        page.wait_for_selector("main")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints, complaints


@pytest.fixture(scope="session")
def gyre(page_file: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """out = a function that runs the native command."""
    program = Path(os.environ.get("GYRE", ROOT / "build/release/gyre"))
    assert program.is_file(), f"{program}: no command; make builds it"

    def run(*arguments: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
        # The page gives its commands 100 columns.
        environment = {**os.environ, "COLUMNS": "100", "GYRE_EXPLORER": str(page_file)}
        return subprocess.run([program.resolve(), *arguments], cwd=cwd, env=environment, capture_output=True, text=True)

    return run


def show(page: Page, view: str) -> None:
    """Scrolls to a view and waits until it is drawn."""
    page.locator(f"#{view}").scroll_into_view_if_needed()
    settle(page)


def settle(page: Page) -> None:
    """Waits for two frames: the state changes in one, the views are drawn in the next."""
    page.evaluate(
        "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 30))))"
    )


def table(page: Page, view: str) -> list[list[str]]:
    """out = the rows of the table behind a view's figure, the names of its columns first."""
    show(page, view)
    if page.locator(f"#{view} details.data").get_attribute("open") is None:
        page.locator(f"#{view} details.data > summary").click()
    page.wait_for_selector(f"#{view} details.data table")
    settle(page)
    rows = page.evaluate(
        "view => [...document.querySelectorAll(`#${view} details.data tr`)].map(r => [...r.children].map(c => c.textContent))",
        view,
    )
    assert len(rows) > 1
    return rows


def number(text: str) -> float:
    """out = a number as the page writes it: "35,300", "−0.5", "1.2·10⁻⁵", "∞"."""
    text = text.replace(",", "").replace("−", "-").replace("∞", "inf")
    if "·10" in text:
        mantissa, exponent = text.split("·10")
        return float(mantissa) * 10 ** int(exponent.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")))
    return float(text)


def model_ready(page: Page) -> None:
    """Waits until the model has read the text under every method that is asked for."""
    show(page, "model")
    page.wait_for_function(
        "() => document.querySelectorAll('#model [data-perplexity]').length > 0"
        " && [...document.querySelectorAll('#model [data-perplexity]')].every(cell => cell.textContent !== '…')"
        " && document.querySelector('#model progress').hidden",
        timeout=PATIENCE,
    )


def as_json(result: subprocess.CompletedProcess[str]) -> Any:
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)
