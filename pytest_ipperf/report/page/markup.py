"""Compose HTML from escaped parts, so that text from a record can never become markup."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


class Markup(str):
    """HTML; any other text is escaped when it becomes part of an element."""

    __slots__ = ()


NOTHING = Markup("")


def element(name: str, *parts: str, **attributes: str) -> Markup:
    """Return `<name ...>parts</name>`; `class_` stands for `class`, and `aria_label` for `aria-label`."""
    shown = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{shown}>{joined(parts)}</{name}>")


def joined(parts: Iterable[str], between: str = "") -> Markup:
    """Return all parts in order, escaped and joined by `between`."""
    return Markup(between.join(part if isinstance(part, Markup) else escape(part) for part in parts))


def bullets(items: Iterable[str], most: int | None = None, **attributes: str) -> Markup:
    """Return a list; `NOTHING` without items. Items after the first `most` are counted."""
    found = list(items)
    left = len(found[most:]) if most else 0
    list_items = [element("li", item) for item in (*found[:most], *[f"and {left} more"] * bool(left))]
    return element("ul", *list_items, **attributes) if list_items else NOTHING


def boxed(label: str, *parts: str) -> Markup:
    """Return parts that may be wider than the page in a scrollable box, which the keyboard reaches too."""
    return element("div", *parts, class_="wide", role="region", aria_label=label, tabindex="0")


def caption(text: str) -> Markup:
    """Return a table's caption, which stays visible while a wide table is scrolled."""
    return element("caption", element("span", text))
