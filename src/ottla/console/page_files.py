"""The files of the page, read once: the folder `page` of this package, which Vite writes from `console/`."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from html import escape
from pathlib import Path

FOLDER = Path(__file__).parent / "page"
INDEX = "/index.html"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
}
ADVICE = "the page is not built: run 'make console' in a checkout (Node 20: npm ci and npm run build in console/)"
NO_CACHE, FOR_EVER = "no-cache", "public, max-age=31536000, immutable"
_COMPRESSIBLE = (".html", ".js", ".css", ".svg", ".json", ".webmanifest", ".txt")


@dataclass(frozen=True, slots=True)
class PageFile:
    data: bytes
    compressed: bytes | None
    type: str
    cache: str


class PageFiles:
    def __init__(self, folder: Path = FOLDER) -> None:
        self._files: dict[str, PageFile] = {}
        for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
            if path.is_file() and path.suffix in TYPES:
                self._files[f"/{path.relative_to(folder).as_posix()}"] = _read(path)
        self.is_built = INDEX in self._files
        self.advice = ADVICE

    def find(self, path: str) -> PageFile | None:
        """The file at a path. A path without a file is one of the page's own screens; None: a file is missing."""
        if path in self._files:
            return self._files[path]
        if path.startswith("/assets/"):
            return None
        if not self.is_built:
            text = f"<!doctype html><title>Ottla console</title><p>{escape(self.advice)}</p>"
            return PageFile(text.encode(), None, TYPES[".html"], NO_CACHE)
        return self._files[INDEX]


def _read(path: Path) -> PageFile:
    data = path.read_bytes()
    is_hashed = path.parent.name == "assets"
    compressed = gzip.compress(data, 9, mtime=0) if path.suffix in _COMPRESSIBLE and len(data) > 500 else None
    return PageFile(data, compressed, TYPES[path.suffix], FOR_EVER if is_hashed else NO_CACHE)
