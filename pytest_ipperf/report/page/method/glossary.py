"""The terms of the page, each with its definition and an anchor to link to."""

from __future__ import annotations

import re

from pytest_ipperf.report.page.html.markup import Markup, element, joined

_TERMS = {
    "cell": "a workload on one arm, such as HTTP with 10 connections over IPv6; its text is the id of the test",
    "workload": "what all arms have in common: testbed, protocol, client, connections, payload and other levels",
    "arm": "what is compared: an IP version with its transport, such as IPv6 tunnel, in ids ipv6-tunnel",
    "reference": "the arm that others are compared with, measured in the same blocks",
    "embedded": "of a server: one of Python that comes with this software or a package, instead of the host's own",
    "run": "one execution of a cell: a number of connections, or some seconds of traffic; its value is their mean",
    "block": "one run of every arm of a workload, in random order",
    "epoch": "the blocks between two rebuilds of the testbed: network, agents and servers are made anew",
    "change": "how much the arm differs from the reference, as measured in the same blocks",
    "interval that decides": "the range of changes that the data allow, at the level by which the verdict is reached",
    "margin": "how much worse an arm may be; a verdict compares the interval with it",
    "within": "the whole interval is inside the margin: shown to be good enough",
    "exceeds": "the whole interval is beyond the margin: shown to be worse",
    "inconclusive": "the interval has the margin inside it: too little evidence for either",
    "unjudged": "measured under a design that never judges, or of too few epochs",
    "invalid": "the measurement contradicts itself, for example a packet that took another path",
    "twin": "the reference measured twice, once under the name of its twin, to see what differs without a cause",
    "A/A check": "the comparison of the reference with its twin: if too many differ, the testbed is unstable",
    "screening": "the first measurement of a night; what seems worse is measured again in fresh epochs",
    "Holm": "the correction for many cells by which fresh epochs confirm, so that a night has few false alarms",
    "typical": "geometric mean over the epochs of the median of the blocks, to which a change in percent belongs",
    "p95": "the time that 95 of 100 connections do not exceed; failed ones count as infinitely slow",
    "lasting change": "from a session on, the level of a cell's history differs (change point), by a test over all its "
    "sessions in which the margin has no part: a cell can be beyond its margin without one, and have one within it",
}
_LINKED = re.compile(
    r"\b(" + "|".join(sorted(map(re.escape, _TERMS), key=len, reverse=True)) + r")(s?)\b(?![^<]*>)", re.IGNORECASE
)


def glossary() -> Markup:
    """Return the list of all terms."""
    items = (
        joined((element("dt", term, id=term_id(term)), element("dd", f"{text}."))) for term, text in _TERMS.items()
    )
    return element("dl", *items)


def term_id(term: str) -> str:
    """Return the id of a term."""
    return f"term-{re.sub(r'[^a-z0-9]+', '-', term.lower())}"


def with_terms(text: str) -> Markup:
    """Return a text in which the first mention of each term leads to the glossary."""
    by_name = {term.lower(): term for term in _TERMS}
    parts: list[str] = []
    seen: set[str] = set()
    last = 0
    for found in _LINKED.finditer(text):
        term = by_name[found[1].lower()]
        if term in seen:
            continue
        seen.add(term)
        parts += [text[last : found.start()], element("a", found[0], href=f"#{term_id(term)}", class_="term")]
        last = found.end()
    return joined((*parts, text[last:]))
