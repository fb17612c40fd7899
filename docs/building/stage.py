"""Copies the pages of the site to where Sphinx reads them, and turns links that leave docs/.

On GitHub a page links to `../CONTRIBUTING.md` or `../examples/gpt.py`. On the site the first is a
page beside it, and a file of code becomes a page that shows it.
"""

from __future__ import annotations

import os
import re
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


class Folder:
    """A folder of written files; those that stay as they were keep their time, for Sphinx."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.written: set[Path] = set()

    def write(self, path: Path, content: str | bytes) -> None:
        """Write a file if it is not there with this content already."""
        content = content.encode() if isinstance(content, str) else content
        self.written.add(path)
        if not path.exists() or path.read_bytes() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)

    def sweep(self) -> None:
        """Remove the files of an earlier time."""
        for path in [p for p in self.root.rglob("*") if p.is_file() and p not in self.written]:
            path.unlink()


def stage(folder: Folder) -> None:
    """Copy all pages into a folder."""
    for path in pages():
        _copy(path, folder.root / path.relative_to(DOCS), folder)
    for path, name in OUTSIDE.items():
        _copy(ROOT / path, folder.root / name, folder)


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


def _copy(path: Path, place: Path, folder: Folder) -> None:
    text = path.read_text(encoding="utf-8")

    def turned(match: re.Match[str]) -> str:
        head, link, tail = match.groups()
        if "://" in link or link.startswith("mailto:"):
            return match[0]
        found = (path.parent / link).resolve()
        return f"{head}{os.path.relpath(_on_site(found, folder), place.parent)}{tail}"

    folder.write(place, LINK.sub(turned, text))


def _on_site(path: Path, folder: Folder) -> Path:
    """Where a file is on the site; a file of code becomes a page."""
    inside, target = path.relative_to(ROOT), folder.root
    if str(inside) in OUTSIDE:
        return target / OUTSIDE[str(inside)]
    if DOCS in path.parents and path.suffix == ".md":
        return target / path.relative_to(DOCS)
    if path.suffix in (".svg", ".png"):
        folder.write(place := target / "pictures" / path.name, path.read_bytes())
        return place
    folder.write(place := target / "code" / f"{inside}.md", _code(path))
    return place


def _code(path: Path) -> str:
    """A page that shows a file, or lists a folder."""
    title = f"---\norphan: true\n---\n# {path.relative_to(ROOT)}\n\n".replace("_", r"\_")
    if path.is_dir():
        names = "\n".join(f"- `{p.name}`" for p in sorted(path.iterdir()) if p.name[0] not in "._")
        return f"{title}{names}\n"
    fence = "````"
    text = path.read_text(encoding="utf-8").rstrip()
    shown = f"{fence}{LANGUAGES.get(path.suffix, 'text')}\n{text}\n{fence}\n"
    return title + shown
