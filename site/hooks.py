"""Hooks of MkDocs: links that leave docs/ become pages of the site, formulas become MathML, the explorer is laid in.

The documents are written for a reader of the repository, so they link to ../src/... and ../README.md.  On the site such a
file is a page of its own: a Markdown file as text, a source file as a listing, a folder as a list.  A link to a file that
does not exist is a warning, and a warning ends a strict build.
"""

from __future__ import annotations

import logging
import os
import posixpath
import re
import shutil
import sys
from pathlib import Path

import jieba
from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files, InclusionLevel
from mkdocs.structure.pages import Page

sys.path.insert(0, str(Path(__file__).resolve().parent))
from figure_words import translate  # noqa: E402

ROOT = Path(__file__).resolve().parent.parent
EXPLORER = ROOT / "build/explorer/explorer.html"
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\[\]]*\])*\])\(([^()\s]+)\)")
FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
SITE = "gyre-site:"  # stands for the root of the English site until a page knows where it lies
FIGURE = re.compile(re.escape(SITE) + r"figures/([\w-]+\.svg)")
LANGUAGES = {".c": "c", ".h": "c", ".py": "python", ".pyi": "python", ".json": "json", ".sh": "sh", ".yml": "yaml"}
EXPLORER_HERE = {
    "en": '<iframe class="gyre-explorer" src="{}" title="Gyre explorer" loading="lazy"></iframe>\n\n[In a window of its own]({})',
    "zh": '<iframe class="gyre-explorer" src="{}" title="Gyre 交互演示" loading="lazy"></iframe>\n\n[在单独的窗口中打开]({})',
}
EXPLORER_PLACE = re.compile(r"<!-- the explorer(?:: (\S+))? -->")
# A view of it in the state that a paragraph describes; the link shows the same with everything around it.
EXPLORER_VIEW = {
    "en": '<iframe class="gyre-live" src="{}" title="Gyre explorer" loading="lazy"></iframe>\n\n'
    "[The same in the explorer]({}){{ .gyre-live-link }}",
    "zh": '<iframe class="gyre-live" src="{}" title="Gyre 交互演示" loading="lazy"></iframe>\n\n'
    "[在交互演示中打开]({}){{ .gyre-live-link }}",
}
EXPLORER_MISSING = {
    "en": "This build of the site has no explorer: `make explorer docs` builds both.",
    "zh": "这次构建的网站没有包含交互演示：`make explorer docs` 会把两者一起构建。",
}

log = logging.getLogger("mkdocs.hooks.gyre")
jieba.setLogLevel(logging.WARNING)  # it tells on stderr that it read its dictionary


def _chinese(config: MkDocsConfig) -> bool:
    return config.theme["language"] == "zh"


def _lines(markdown: str):
    """Lines with whether they are text: not of a fenced block."""
    fence = ""
    for line in markdown.split("\n"):
        mark = FENCE.match(line)
        if fence:
            yield line, False
            if mark and mark[1].startswith(fence) and line.strip() == mark[1]:
                fence = ""
        elif mark:
            fence = mark[1]
            yield line, False
        else:
            yield line, True


def _repository_path(src_uri: str, config: MkDocsConfig) -> str:
    """The path in the repository of what a page of the site shows."""
    if src_uri.startswith("source/"):
        return src_uri.removeprefix("source/").removesuffix(".md").removesuffix("/index")
    if src_uri == "contributing.md":
        return "CONTRIBUTING.md"
    return ("docs/zh/" if _chinese(config) else "docs/") + src_uri


def _page_of(path: str) -> str:
    """The page of the site that shows a path of the repository; "zh/..." is one of the Chinese site."""
    if path == "README.md":
        return "index.md"
    if path == "README.zh.md":
        return "zh/index.md"
    if path == "CONTRIBUTING.md":
        return "contributing.md"
    if path.startswith("docs/"):
        return path.removeprefix("docs/")
    return f"source/{path}/index.md" if (ROOT / path).is_dir() else f"source/{path}.md"


def _url(page: str) -> str:
    """The address of a page, from the root of the English site."""
    if not page.endswith(".md"):
        return page
    page = page.removesuffix(".md")
    page = page.removesuffix("index") if page == "index" or page.endswith("/index") else page + "/"
    return page


def _target(link: str, source: str) -> tuple[str, str] | None:
    """The path in the repository that a link of the file `source` means, and its anchor; None for other links."""
    address, _, anchor = link.partition("#")
    if not address or ":" in address or address.startswith("/"):
        return None
    return posixpath.normpath(posixpath.join(posixpath.dirname(source), address)), anchor


def _links(markdown: str, source: str):
    for line, is_text in _lines(markdown):
        for found in LINK.finditer(line) if is_text else ():
            target = _target(found[2], source)
            if target:
                yield target[0]


def _listing(path: str) -> str:
    """The page that shows a file or folder of the repository outside of docs/."""
    here = ROOT / path
    head = "---\nsearch:\n  exclude: true\n---\n\n"
    if here.is_dir():
        names = sorted(item.name + ("/" if item.is_dir() else "") for item in here.iterdir() if item.name[0] != ".")
        return head + f"# {path}/\n\n" + "\n".join(f"* `{name}`" for name in names) + "\n"
    text = here.read_text(encoding="utf-8")
    if here.suffix == ".md":
        return head + text
    return head + f"# {path}\n\n``````{LANGUAGES.get(here.suffix, 'text')}\n{text.rstrip()}\n``````\n"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    if _chinese(config):
        return files
    for name, path in (("contributing.md", "CONTRIBUTING.md"), ("python-api.md", "site/pages/python-api.md")):
        files.append(File.generated(config, name, content=(ROOT / path).read_text(encoding="utf-8")))
    waiting = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    shown: set[str] = set()
    while waiting:
        file = waiting.pop()
        for path in _links(file.read_text(encoding="utf-8"), file.relative_to(ROOT).as_posix()):
            page = _page_of(path)
            if not page.startswith("source/") or page in shown or not (ROOT / path).exists():
                continue
            shown.add(page)
            files.append(File.generated(config, page, content=_listing(path), inclusion=InclusionLevel.NOT_IN_NAV))
            if path.endswith(".md"):
                waiting.append(ROOT / path)
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    source = _repository_path(page.file.src_uri, config)
    here = ("zh/" if _chinese(config) else "") + page.file.src_uri

    def rewrite(found: re.Match[str]) -> str:
        target = _target(found[2], source)
        if target is None:
            return found[0]
        path, anchor = target
        hash_anchor = f"#{anchor}" if anchor else ""
        if path.startswith("..") or not (ROOT / path).exists():
            if files.get_file_from_path(posixpath.normpath(posixpath.join(posixpath.dirname(here), found[2].split("#")[0]))):
                return found[0]  # a page that only the site has
            log.warning("%s links to %s, which does not exist", source, found[2])
            return found[0]
        to = _page_of(path)
        if to.startswith("zh/") != here.startswith("zh/"):
            return f"{found[1]}({SITE}{_url(to)}{hash_anchor})"
        return f"{found[1]}({posixpath.relpath(to, posixpath.dirname(here) or '.')}{hash_anchor})"

    lines = [LINK.sub(rewrite, line) if is_text else line for line, is_text in _lines(markdown)]
    text = "\n".join(lines)
    language = config.theme["language"]
    app = f"{SITE}explorer/app.html#lang={language}"

    def explorer(found: re.Match[str]) -> str:
        state = found[1]
        if not EXPLORER.exists():
            return "" if state else EXPLORER_MISSING[language]
        if not state:
            return EXPLORER_HERE[language].format(app, app)
        whole = "&".join(part for part in state.split("&") if not part.startswith(("only=", "play=")))
        return EXPLORER_VIEW[language].format(f"{app}&{state}", f"{app}&{whole}" if whole else app)

    return EXPLORER_PLACE.sub(explorer, text)


def _root_of(page: Page, config: MkDocsConfig) -> str:
    """The way from a page to the root of the English site."""
    depth = page.url.count("/") + (1 if _chinese(config) else 0)
    return "../" * depth or "./"


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    def formula(found: re.Match[str]) -> str:
        text = found[2].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
        if found[1] == "span":
            return convert(text, display="inline")
        return f'<div class="gyre-formula" tabindex="0">{convert(text, display="block")}</div>'

    html = re.sub(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', formula, html, flags=re.DOTALL)
    if _chinese(config):
        html = FIGURE.sub(SITE + r"zh/figures/\1", html)
    html = re.sub(r'<img [^>]*src="([^"]+\.svg)"[^>]*>', r'<a class="gyre-figure" href="\1">\g<0></a>', html)
    html = re.sub(r":(?:meth|func|class|attr):(?=<code>)", "", html)  # roles that help() shows and a page need not
    return html.replace(SITE, _root_of(page, config))


def on_page_context(context: dict, page: Page, config: MkDocsConfig, nav) -> dict:
    root = _root_of(page, config)
    if _chinese(config):
        context["other_language"] = root + (page.url if (ROOT / "docs" / page.file.src_uri).exists() else "")
    else:
        there = (ROOT / "docs/zh" / page.file.src_uri).exists()
        context["other_language"] = root + "zh/" + (page.url if there else "")
    return context


def _translate_figures(site: Path) -> None:
    """The figures that Chinese pages show, with their texts in Chinese."""
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs/zh").rglob("*.md"))
    (site / "figures").mkdir(parents=True, exist_ok=True)
    for name in sorted(set(re.findall(r"figures/([\w-]+\.svg)\)", pages))):
        svg, missing = translate((ROOT / "docs/figures" / name).read_text(encoding="utf-8"))
        for text in missing:
            log.warning('docs/figures/%s: site/figure_words.py has no Chinese for "%s"', name, text)
        (site / "figures" / name).write_text(svg, encoding="utf-8")


def on_post_build(config: MkDocsConfig) -> None:
    site = Path(config.site_dir)
    if _chinese(config):
        _translate_figures(site)
    if not _chinese(config) and EXPLORER.exists():
        os.makedirs(site / "explorer", exist_ok=True)
        shutil.copyfile(EXPLORER, site / "explorer/app.html")
