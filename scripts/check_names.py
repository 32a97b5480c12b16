#!/usr/bin/env python3
"""Fails if a type name stands for two things in one crate: a reader who meets it must know which one is meant.

Counts types that other modules can see: `pub`, `pub(crate)`, `pub(super)` and `pub(in ...)`.

    scripts/check_names.py
"""

import re
import sys
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VISIBLE_TYPE = re.compile(r"^\s*pub(?:\([a-z: ]+\))?\s+(?:unsafe\s+)?(?:struct|enum|union|trait|type)\s+(\w+)", re.MULTILINE)


def main() -> int:
    found = 0
    for crate in sorted((ROOT / "crates").iterdir()):
        places = defaultdict(list)
        for path in sorted((crate / "src").rglob("*.rs")):
            text = path.read_text(encoding="utf-8")
            for match in VISIBLE_TYPE.finditer(text):
                line = text.count("\n", 0, match.start(1)) + 1
                places[match[1]].append(f"{path.relative_to(ROOT)}:{line}")
        for name, where in sorted(places.items()):
            if len(where) > 1:
                found += 1
                print(f"{crate.name}: `{name}` is the name of {len(where)} types: {', '.join(where)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
