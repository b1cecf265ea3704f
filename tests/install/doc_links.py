"""Finds links of installed documents to files that are not installed.

    doc_links.py ROOT      ROOT/usr/share/doc has the documents; links that begin with / are looked up in ROOT too
"""

import pathlib
import re
import sys

root = pathlib.Path(sys.argv[1])
documents = sorted((root / "usr/share/doc").rglob("*.md"))
if len(documents) < 20:
    sys.exit(f"{root}: {len(documents)} documents, too few to be right")
missing = 0
for document in documents:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    for link in re.findall(r"\]\(([^)#\s]+)", text):
        target = root / link[1:] if link.startswith("/") else document.parent / link
        if not re.match(r"[a-z]+:", link) and not target.exists():
            missing += 1
            print(f"{document.relative_to(root)}: {link}: not installed", file=sys.stderr)
sys.exit(missing > 0)
