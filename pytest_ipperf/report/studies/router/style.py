"""Define the page's style, light and dark, and the colours of the grades with texts that can be read on them."""

from __future__ import annotations

from collections.abc import Mapping

COLOURS: Mapping[str, tuple[str, str]] = {
    "dark green": ("#0b5d2a", "#ffffff"),
    "green": ("#4cb866", "#0b0b0b"),
    "yellow": ("#f2cb3c", "#0b0b0b"),
    "red": ("#c9302c", "#ffffff"),
    "dark red": ("#6d0c12", "#ffffff"),
}
"""By the study's word for a colour the ground's and the text's, with a contrast of 4.5 at least (WCAG 2)."""

_RULES = """
:root { color-scheme: light dark; --ground: #ffffff; --ink: #1b1b1b; --soft: #5a5a5a; --line: #d5d5d5;
  --card: #f6f6f4; }
@media (prefers-color-scheme: dark) {
  :root { --ground: #161616; --ink: #ececec; --soft: #b0b0b0; --line: #3a3a3a; --card: #202020; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 80rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", "DejaVu Sans", sans-serif; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 .5rem; }
h2 { font-size: 1.25rem; margin: 2.5rem 0 .5rem; }
h3 { font-size: 1.05rem; margin: 2rem 0 .5rem; }
p, li, dd { max-width: 50rem; }
ul { padding-left: 1.2rem; }
.soft { color: var(--soft); }
.wide { overflow-x: auto; border: 1px solid var(--line); border-radius: 6px; margin: 1rem 0; }
.wide:focus-visible { outline: 3px solid #2f6fd0; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .6rem .5rem; color: var(--soft); font-size: .9rem; }
caption span { display: inline-block; position: sticky; left: .5rem; max-width: min(100%, calc(100vw - 4rem)); }
th, td { padding: .4rem .5rem; border-top: 1px solid var(--line); text-align: left; vertical-align: top; }
thead th { border-left: 1px solid var(--line); font-size: .9rem; }
thead th:first-child { border-left: 0; }
tbody th { white-space: nowrap; position: sticky; left: 0; background: var(--ground); }
td { border-left: 1px solid var(--line); white-space: nowrap; }
td .soft { white-space: normal; }
td b { display: block; font-size: 1.05rem; }
td small, th small { display: block; font-weight: normal; font-size: .8rem; }
td.several { padding: 0; }
td.several > div { padding: .4rem .5rem; }
td.several > .band { padding: .15rem .5rem; font-size: .8rem; }
td.number { text-align: right; }
.key { display: flex; flex-wrap: wrap; gap: .5rem; padding: 0; margin: 1rem 0; list-style: none; }
.key li { padding: .25rem .75rem; border-radius: 4px; font-size: .9rem; }
figure { margin: 1.5rem 0; padding: .75rem; background: var(--card); border: 1px solid var(--line);
  border-radius: 6px; max-width: 52rem; }
.drawn { overflow-x: auto; }
figure svg { display: block; width: 100%; min-width: 32rem; height: auto; color: var(--ink); }
figcaption, dd { font-size: .92rem; }
dt { font-weight: 600; margin-top: .75rem; }
dd { margin: 0; }
summary { cursor: pointer; padding: .25rem 0; }
"""


def style() -> str:
    """All rules, those of the grades among them."""
    grades = "\n".join(
        f".{class_of(name)} {{ background: {ground}; color: {text}; }}" for name, (ground, text) in COLOURS.items()
    )
    return f"{_RULES}{grades}\n"


def class_of(colour: str) -> str:
    """The class of what has a grade's colour."""
    return colour.replace(" ", "-")
