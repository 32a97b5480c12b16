#!/usr/bin/env python3
"""Fails if a link in a page of this repository leads nowhere: a missing file, or a heading that does not exist.

    scripts/check_links.py
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"\]\(([^)\s]+)\)")
IN_CODE = re.compile(r"docs/[\w./-]+\.md")


def anchors(page: Path) -> set[str]:
    """The anchors that a page's headings have on GitHub."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in headings}


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(["git", "ls-files", *patterns], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split() if (ROOT / name).exists()]


def main() -> int:
    broken = []
    for page in tracked("*.md"):
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for link in LINK.findall(text):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            if not target.exists():
                broken.append(f"{page.relative_to(ROOT)}: `{link}`: there is no such file")
            elif anchor and anchor not in anchors(target):
                broken.append(f"{page.relative_to(ROOT)}: `{link}`: there is no such heading")
    # Comments and scripts name pages, too.
    for source in tracked("*.rs", "*.py", "*.sh", "*.toml", "*.js", "*.html"):
        for name in IN_CODE.findall(source.read_text(encoding="utf-8")):
            if not (ROOT / name).exists():
                broken.append(f"{source.relative_to(ROOT)}: `{name}`: there is no such page")
    print("\n".join(broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
