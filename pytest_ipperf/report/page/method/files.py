"""List the files of a session with their sizes, as links relative to the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

from pytest_ipperf.core.nightly.session_summary import SessionSummary
from pytest_ipperf.report.page.html.markup import NOTHING, Markup, boxed, caption, element, folded, joined

_ABOUT = {
    ".csv": "figures in base units", ".json": "document", ".jsonl": "event log: every run, proof and verdict",
    ".f64": "samples of single connections", ".pcap": "captured packets", ".xml": "JUnit", ".txt": "text",
    ".svg": "plot", ".png": "plot", ".html": "page",
}  # fmt: skip
_MANY = 12
"""Number of files of one folder above which they are folded."""
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def files(summary: SessionSummary) -> Markup:
    """Return the files of the session's folder, by folder; empty if there are none."""
    found = sorted(_files(summary.folder), key=lambda path: (len(path.parts), path))
    groups: dict[str, list[Path]] = {}
    for path in found:
        groups.setdefault("" if len(path.parts) == 1 else path.parts[0], []).append(path)
    shown = [_group(name, paths, summary.folder) for name, paths in groups.items()]
    if not shown:
        return NOTHING
    about = "Links are relative to the session's folder, where this page is written. Other forms: "
    command = f"pytest-ipperf export {summary.name} --format csv"
    others = element("p", about, element("code", command), ", json, junit, markdown.", class_="soft")
    return joined((*shown, others))


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*") if folder.is_dir() else ():
        if path.is_file() and not path.name.endswith((".part", ".lock")):
            yield path.relative_to(folder)


def _group(name: str, paths: list[Path], folder: Path) -> Markup:
    rows = [
        element(
            "tr",
            element("th", element("a", str(path), href=quote(str(path), errors="replace")), scope="row"),
            element("td", size_text((folder / path).stat().st_size)),
            element("td", _ABOUT.get(path.suffix, "")),
        )
        for path in paths
    ]
    title = f"Files in {name}" if name else "Files of the session"
    heads = (element("th", text, scope="col") for text in ("file", "size", "content"))
    head = element("thead", element("tr", *heads))
    table = boxed(title, element("table", caption(title), head, element("tbody", *rows), class_="files"))
    return folded(f"{title} ({len(paths)})", table) if len(paths) > _MANY else table


def size_text(count: int) -> str:
    """Return a number of bytes for people: `1.2 MB`."""
    for size, unit in _SIZES:
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} B"
