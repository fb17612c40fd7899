"""Copies the pages of the site to where Sphinx reads them, and turns links that leave docs/.

On GitHub a page links to `../CONTRIBUTING.md` or `../examples/gpt.py`. On the site the first is a
page beside it, and a file of code becomes a page that shows it.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
# Pages outside docs/ and where they are on the site.
OUTSIDE = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "examples/README.md": "examples.md",
}
LINK = re.compile(r"(!?\[[^\]]*\]\()([^)#\s]+)((?:#[^)]*)?\))")
LANGUAGES = {
    ".py": "python",
    ".yaml": "yaml",
    ".c": "c",
    ".toml": "toml",
    ".txt": "text",
    "": "text",
}


def stage(target: Path) -> None:
    """Copy all pages into an empty folder."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for path in pages():
        _copy(path, target / path.relative_to(DOCS), target)
    for path, name in OUTSIDE.items():
        _copy(ROOT / path, target / name, target)


def pages() -> list[Path]:
    """The pages of docs/."""
    return sorted(p for p in DOCS.rglob("*.md") if "_build" not in p.parts)


def links(text: str) -> list[str]:
    """The targets of a page's links that are files.

    >>> links("[a](b.md#c), ![d](e.svg), [f](https://g), [h](#i)")
    ['b.md', 'e.svg']
    """
    found = [target for _, target, _ in LINK.findall(_without_code(text))]
    return [target for target in found if "://" not in target and not target.startswith("mailto:")]


def _without_code(text: str) -> str:
    return re.sub(r"^(```+|~~~+).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)


def _copy(path: Path, place: Path, target: Path) -> None:
    text = path.read_text(encoding="utf-8")

    def turned(match: re.Match[str]) -> str:
        head, link, tail = match.groups()
        if "://" in link or link.startswith("mailto:"):
            return match[0]
        found = (path.parent / link).resolve()
        return f"{head}{os.path.relpath(_on_site(found, target), place.parent)}{tail}"

    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(LINK.sub(turned, text), encoding="utf-8")


def _on_site(path: Path, target: Path) -> Path:
    """Where a file is on the site; a file of code becomes a page."""
    inside = path.relative_to(ROOT)
    if str(inside) in OUTSIDE:
        return target / OUTSIDE[str(inside)]
    if DOCS in path.parents and path.suffix == ".md":
        return target / path.relative_to(DOCS)
    if path.suffix in (".svg", ".png"):
        place = target / "pictures" / path.name
        place.parent.mkdir(exist_ok=True)
        shutil.copy(path, place)
        return place
    return _code(path, target / "code" / f"{inside}.md")


def _code(path: Path, place: Path) -> Path:
    """A page that shows a file, or lists a folder."""
    place.parent.mkdir(parents=True, exist_ok=True)
    title = f"---\norphan: true\n---\n# {path.relative_to(ROOT)}\n\n".replace("_", r"\_")
    if path.is_dir():
        names = "\n".join(f"- `{p.name}`" for p in sorted(path.iterdir()) if p.name[0] not in "._")
        place.write_text(f"{title}{names}\n", encoding="utf-8")
        return place
    fence = "````"
    text = path.read_text(encoding="utf-8").rstrip()
    shown = f"{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text}\n{fence}\n"
    place.write_text(title + shown, encoding="utf-8")
    return place
