"""Checks that every link of the site leads to a file and a place in it; nothing is fetched."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag


class Page(HTMLParser):
    """The links of a page, and the places in it that links can name."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for key, value in attrs:
            if key in ("href", "src") and value:
                self.links.append(value)
            elif key in ("id", "name") and value:
                self.places.add(value)


def broken(site: Path) -> list[str]:
    """What is wrong: "index.html: no file tutorial.html"."""
    pages = {p.resolve(): Page(p.read_text(encoding="utf-8")) for p in site.rglob("*.html")}
    found: list[str] = []
    for path, page in pages.items():
        for link in dict.fromkeys(page.links):
            if wrong := _wrong(path, link, pages):
                found.append(f"{path.relative_to(site.resolve())}: {wrong}")
    return found


def _wrong(path: Path, link: str, pages: dict[Path, Page]) -> str:
    if link.startswith(("http:", "https:", "mailto:", "data:", "javascript:")):
        return ""
    address, place = urldefrag(link)
    address = address.partition("?")[0]
    target = (path.parent / unquote(address)).resolve() if address else path
    if target.is_dir():
        target = target / "index.html"
    if not target.exists():
        return f"no file {link}"
    if place and target in pages and unquote(place) not in pages[target].places:
        return f"no place {link}"
    return ""
