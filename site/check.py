#!/usr/bin/env python3
"""Checks the documents and the built site; prints each fault and exits with 1 if there is one.

    site/check.py sources      links and anchors of every Markdown file; the same sections in the English and Chinese guide, and
                               the same commands, output and numbers of tables in the pages of WHOLE
    site/check.py site         build/site: every link, anchor and picture is there, and no page asks another host for anything
    site/check.py requests     build/site in Chromium: no request leaves this machine
"""

from __future__ import annotations

import functools
import http.server
import json
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build/site"
LINK = re.compile(r"\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(([^()\s]+)\)")
HEADING = re.compile(r"^(#{1,6}) (.+?)\s*$")
POLICY = "default-src 'self'"
WHOLE = ("questions.md", "figures.md", "results.md", "answers.md")  # pages of docs/ whose Chinese is complete
# Tables that a script writes; some of them into the English page alone.
WRITTEN = re.compile(r"<!-- (?:evidence|scripts)/.*?<!-- (?:end|scripts/real-results ends) -->", re.S)
faults: list[str] = []


def fault(where: object, what: str) -> None:
    faults.append(f"{where}: {what}")


# -- sources --


def text_lines(path: Path) -> list[str]:
    """Lines of a Markdown file without its code blocks."""
    lines, fence = [], ""
    for line in path.read_text(encoding="utf-8").split("\n"):
        mark = re.match(r"^\s*(`{3,}|~{3,})", line)
        if fence:
            fence = "" if mark and line.strip() == fence else fence
        elif mark:
            fence = mark[1]
        else:
            lines.append(line)
    return lines


@functools.cache
def anchors(path: Path) -> set[str]:
    """The anchors of a Markdown file, by the rule of forges: lower case, no punctuation, hyphens for spaces."""
    found: set[str] = set()
    for line in text_lines(path):
        heading = HEADING.match(line)
        if not heading:
            continue
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[2])
        slug = re.sub(r"[^\w\- ]", "", words.lower()).strip().replace(" ", "-")
        number, name = 0, slug
        while name in found:
            number += 1
            name = f"{slug}-{number}"
        found.add(name)
    return found


def check_links() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"], cwd=ROOT, capture_output=True, text=True
    )
    for name in listed.stdout.split():
        path = ROOT / name
        if not path.exists() or name.startswith(("tests/", "site/pages/")):
            continue
        for link in LINK.findall(re.sub(r"`[^`]*`", "", "\n".join(text_lines(path)))):
            address, _, anchor = link.partition("#")
            if ":" in address:
                continue
            target = (path.parent / unquote(address)).resolve() if address else path
            if not target.exists():
                fault(name, f"links to {link}, which does not exist")
            elif anchor and target.suffix == ".md" and unquote(anchor) not in anchors(target):
                fault(name, f"links to {link}, and {address or name} has no such section")


def shape(path: Path) -> list[str]:
    """What two languages of a page have in common: levels of headings, commands, figures, formulas, rows of tables."""
    parts = []
    whole = path.read_text(encoding="utf-8")
    if path.name in WHOLE:
        whole = WRITTEN.sub("", whole)
    for line in whole.split("\n"):
        heading = HEADING.match(line)
        if heading:
            parts.append(heading[1])
        elif line.startswith("$ gyre") or line.startswith("gyre "):
            parts.append(line.split(" #")[0].strip())
        elif line.startswith("| "):
            parts.append("row")
        elif line.startswith("```"):
            parts.append(line)
        parts += re.findall(r"figures/[\w.-]+", line)
    return parts


def printed(path: Path) -> list[str]:
    """What two languages of a page show of runs: each line of a block of code, the numbers of each row of a table."""
    parts, in_block = [], False
    for line in WRITTEN.sub("", path.read_text(encoding="utf-8")).split("\n"):
        if line.startswith("```"):
            in_block = not in_block
        elif in_block:
            parts.append(line)
        elif line.startswith("| "):
            parts.append(" ".join(re.findall(r"\d+(?:\.\d+)?", line)))
    return parts


def first_difference(page: str, ours: list[str], theirs: list[str]) -> None:
    for number, (a, b) in enumerate(zip(ours + ["the end"], theirs + ["the end"])):
        if a != b:
            fault(page, f'part {number}: English has "{a}", Chinese has "{b}"')
            return


def check_languages() -> None:
    for name in (*WHOLE, "articles.md"):  # rows of the articles' list are words, and its numbers are not those of runs
        english, chinese = ROOT / "docs" / name, ROOT / "docs/zh" / name
        first_difference(name, shape(english), shape(chinese))
        if name in WHOLE:
            first_difference(name, printed(english), printed(chinese))
    for folder in ("guide", "how-to"):
        english = {path.name for path in (ROOT / "docs" / folder).glob("*.md")}
        chinese = {path.name for path in (ROOT / "docs/zh" / folder).glob("*.md")}
        for name in sorted(english ^ chinese):
            fault(f"{folder}/{name}", "is there in one language only")
        for name in sorted(english & chinese):
            ours, theirs = shape(ROOT / "docs" / folder / name), shape(ROOT / "docs/zh" / folder / name)
            first_difference(f"{folder}/{name}", ours, theirs)


def check_readmes() -> None:
    """Each README names the other in its first lines."""
    for name, other in (("README.md", "README.zh.md"), ("README.zh.md", "README.md")):
        head = (ROOT / name).read_text(encoding="utf-8").split("\n")[:4]
        if f"({other})" not in "\n".join(head):
            fault(name, f"has no link to {other} in its first lines")


# -- site --


class Page(HTMLParser):
    """Identifiers, links, and what a browser loads without being asked."""

    LOADS = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "audio": "src"}

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.policy = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, given: list[tuple[str, str | None]]) -> None:
        attributes = {name: value or "" for name, value in given}
        if "id" in attributes:
            self.ids.add(attributes["id"])
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if self.LOADS.get(tag, "") in attributes and attributes.get("rel") not in ("canonical", "alternate", "next", "prev"):
            self.loads.append(attributes[self.LOADS[tag]])
        if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy":
            self.policy = attributes["content"]


@functools.cache
def page(path: Path) -> Page:
    return Page(path)


def check_page(path: Path) -> None:
    name = path.relative_to(SITE)
    here = page(path)
    if not here.policy.startswith(POLICY):
        fault(name, "has no content security policy that keeps requests at home")
    for load in here.loads:
        if urlsplit(load).scheme not in ("", "data") or load.startswith("//"):
            fault(name, f"loads {load} from another host")
    for link in here.links + here.loads:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc or link in ("", "#") or name.name == "404.html":
            continue
        target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
        target = target / "index.html" if target.is_dir() else target
        if not target.exists():
            fault(name, f"{link} leads nowhere")
        elif parts.fragment and target.suffix == ".html" and target.name != "app.html":
            if unquote(parts.fragment) not in page(target).ids and parts.fragment != "__search":
                fault(name, f"{link}: no such place on that page")


def check_site() -> None:
    pages = [path for path in sorted(SITE.rglob("*.html")) if path.name != "app.html"]
    if len(pages) < 20:
        fault(SITE, f"has {len(pages)} pages: run make docs")
    for path in pages:
        check_page(path)
    for path in sorted(SITE.rglob("*.css")):
        for address in re.findall(r"""(?:url\(|@import)\s*['"]?(?:https?:)?//[^)'"\s]+""", path.read_text(encoding="utf-8")):
            fault(path.relative_to(SITE), f"fetches {address}")
    for folder in ("search", "zh/search"):
        if not (SITE / folder / "search_index.json").exists():
            fault(folder, "has no index to search")
    index = (SITE / "zh/search/search_index.json").read_text(encoding="utf-8")
    if "\u200b" not in json.loads(index)["docs"][0]["text"] and "\\u200b" not in index.lower():
        fault("zh/search", "Chinese text is not cut into words")


# -- requests --


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        pass


def check_requests() -> None:
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        print("site/check.py: no Chromium here, requests are not watched")
        return
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=SITE))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    home = f"http://127.0.0.1:{server.server_address[1]}/"
    asked: set[str] = set()
    for path in ("index.html", "guide/rope/", "explorer/", "python-api/", "zh/guide/extension/"):
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder) / "net.json"
            command = [browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile"]
            command += ["--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run"]
            command += ["--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", f"--log-net-log={log}"]
            command += ["--virtual-time-budget=5000", "--dump-dom", home + path]
            done = subprocess.run(command, capture_output=True, text=True, timeout=120)
            if "</html>" not in done.stdout:
                fault(path, "does not open in Chromium")
            asked |= set(re.findall(r'"url":"(https?://[^" ]+)"', log.read_text(encoding="utf-8", errors="replace")))
    server.shutdown()
    known = ("google.com", "googleapis.com", "gvt1.com", "gstatic.com", "googleusercontent.com")  # the browser's own
    hosts = {urlsplit(address).hostname or "" for address in asked}
    for host in sorted(hosts):
        if host not in ("127.0.0.1", "localhost") and not host.endswith(known) and "." in host:
            fault("requests", f"{host} was asked for something")
    if not any(address.startswith(home) for address in asked):
        fault("requests", "the log of Chromium holds no request at all")


def main() -> int:
    what = sys.argv[1] if len(sys.argv) == 2 else ""
    if what == "sources":
        check_links()
        check_languages()
        check_readmes()
    elif what == "site":
        check_site()
    elif what == "requests":
        check_requests()
    else:
        print(__doc__)
        return 2
    for line in faults:
        print(f"site/check.py: {line}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
