#!/usr/bin/env python3
"""The packages inside the program, with the texts of their licences, as an archive of it has to carry them.

    scripts/third_party.py TARGET > THIRD-PARTY.txt
"""

import json
import subprocess
import sys
from pathlib import Path


def packages(target):
    """What the program for this target is linked with, as `cargo metadata` describes it."""
    tree = subprocess.run(
        ["cargo", "tree", "--locked", "--package", "batch-first", "--features", "queue", "--edges", "normal",
         "--target", target, "--prefix", "none", "--format", "{p}"], check=True, capture_output=True, text=True).stdout
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    described = subprocess.run(["cargo", "metadata", "--locked", "--format-version", "1", "--filter-platform", target],
                               check=True, capture_output=True, text=True).stdout
    for package in json.loads(described)["packages"]:
        if package["source"] and (package["name"], "v" + package["version"]) in linked:
            yield package


def texts(package):
    """The files of a package that are licences or notices."""
    folder = Path(package["manifest_path"]).parent
    words = ("licen", "copying", "notice", "copyright", "unlicense")
    files = [file for file in sorted(folder.iterdir()) if file.is_file() and file.name.lower().startswith(words)]
    named = package.get("license_file")
    if named and folder / named not in files:
        files.append(folder / named)
    return [(file.name, file.read_text(errors="replace").strip()) for file in files]


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    print("Batch First contains these packages. Batch First itself is GPL-3.0-or-later: LICENSE.")
    seen = {}
    for package in sorted(packages(sys.argv[1]), key=lambda package: (package["name"], package["version"])):
        name = f"{package['name']} {package['version']}"
        print(f"\n{'=' * 80}\n{name}: {package['license'] or 'see below'}")
        if package["repository"]:
            print(package["repository"])
        for file, text in texts(package):
            # Most packages share a few texts.
            first = seen.setdefault(text, name)
            print(f"\n--- {file}" + ("\n" + text if first == name else f": as that of {first}"))


if __name__ == "__main__":
    main()
