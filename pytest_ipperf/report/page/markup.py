"""Compose HTML of escaped parts, so that a text from a record can never become markup."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


class Markup(str):
    """HTML as it is. Any other text is escaped where it becomes a part of it."""

    __slots__ = ()


NOTHING = Markup("")


def element(name: str, *parts: str, **attributes: str) -> Markup:
    """`<name ...>parts</name>`; `class_` stands for `class`, and `aria_label` for `aria-label`."""
    shown = "".join(f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"' for key, value in attributes.items())
    return Markup(f"<{name}{shown}>{joined(parts)}</{name}>")


def joined(parts: Iterable[str], between: str = "") -> Markup:
    """All parts one after another."""
    return Markup(between.join(part if isinstance(part, Markup) else escape(part) for part in parts))


def bullets(items: Iterable[str], most: int | None = None, **attributes: str) -> Markup:
    """A list; nothing of nothing. Of more than `most` items the others are counted."""
    found = list(items)
    left = len(found[most:]) if most else 0
    list_items = [element("li", item) for item in (*found[:most], *[f"and {left} more"] * bool(left))]
    return element("ul", *list_items, **attributes) if list_items else NOTHING


def boxed(label: str, *parts: str) -> Markup:
    """What may be wider than a page: it scrolls in a box of its own, which keys reach too."""
    return element("div", *parts, class_="wide", role="region", aria_label=label, tabindex="0")


def caption(text: str) -> Markup:
    """A table's; it stays in sight while a wide table is moved to and fro."""
    return element("caption", element("span", text))
