"""Read the pages of the documentation: their blocks of code, and their tables."""

import re
from pathlib import Path

TOP = Path(__file__).parents[2]


def page(name):
    return (TOP / name).read_text(encoding="utf-8")


def blocks(text, language):
    """The fenced blocks of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def table(name, *header):
    """The rows of the page's table whose first columns are called so."""
    found: list[list[str]] = []
    inside = False
    for line in page(name).splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("|") else []
        if cells[: len(header)] == list(header):
            inside = True
        elif not cells:
            inside = False
        elif inside and not set(line) <= set("|-"):
            found.append(cells)
    assert found, f"{name} has no table {header}"
    return found


def codes(cell):
    """What a cell has in back quotes."""
    return re.findall(r"`([^`]+)`", cell)


def names(name, *header):
    """The first word in back quotes of each row."""
    return [codes(row[0])[0] for row in table(name, *header)]
