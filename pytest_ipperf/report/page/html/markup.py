"""Compose HTML from escaped parts, so that text from a record can never become markup."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path

from pytest_ipperf.core.records.history_entry import HistoryKey


class Markup(str):
    """HTML; any other text is escaped when it becomes part of an element."""

    __slots__ = ()


NOTHING = Markup("")


def policy(rules: str) -> str:
    """Return the content security policy of a page whose one style element has the text `rules`.

    The browser loads and runs nothing, and applies no other style, whatever a record contains. It knows the element by
    the digest of its text (Content Security Policy Level 3, section 6.7.3.3), so the page has no `style` attributes.
    """
    digest = base64.b64encode(hashlib.sha256(rules.encode("utf-8")).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


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
    return element("div", *parts, class_="wide", role="group", aria_label=label, tabindex="0")


def folded(title: str, *parts: str, is_open: bool = False, **attributes: str) -> Markup:
    """Return parts that a reader opens by their title; with `is_open` they are open at first."""
    shown = {"open": ""} if is_open else {}
    return element("details", element("summary", title), *parts, **shown, **attributes)


def command(text: str) -> Markup:
    """Return a command as code whose words stay whole, as far as the line has room for one."""
    return element("code", joined((element("span", word) for word in text.split(" ")), " "), class_="command")


def caption(text: str) -> Markup:
    """Return a table's caption, which stays visible while a wide table is scrolled."""
    return element("caption", element("span", text))


def html_file(title: str, body: str, *more_head: Markup, style: str = "") -> str:
    """Return a whole file in the style of the page, followed by the rules of `style`; it loads and runs nothing."""
    sheets = sorted(Path(__file__).with_name("style").glob("*.css"))
    rules = "".join(sheet.read_text(encoding="utf-8") for sheet in sheets) + style
    head = joined(
        (
            Markup('<meta charset="utf-8">'),
            Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy(rules)}">'),
            Markup('<meta name="color-scheme" content="light dark">'),
            *more_head,
            element("title", title),
            element("style", Markup(rules)),
        ),
        "\n",
    )
    return f'<!DOCTYPE html>\n<html lang="en">\n<head>\n{head}\n</head>\n<body>\n{body}\n</body>\n</html>\n'


def anchor(key: HistoryKey) -> str:
    """Return the id of a cell's row in the page: `cell-lab-smtp-c10-1k-ipv6-response_time`.

    It is unique: characters not allowed in a link are replaced by their code points.
    """
    return "cell-" + re.sub(r"[^A-Za-z0-9._-]", lambda found: f"~{ord(found[0]):x}~", f"{key.cell}-{key.metric}")
