"""Queries of a load, and the judgement of their answers."""

from __future__ import annotations

import os

from pytest_ipperf.core.portable import dns
from pytest_ipperf.core.portable.dns.zone import LABEL_BYTES, label, name_of, text_of
from pytest_ipperf.protocols.base import CONTENT, PROTOCOL

TRUNCATED = "truncated"
"""Judgement of a right answer without its records, which has to be asked for again by TCP (RFC 7766, section 5)."""
_HEAD_BYTES = 12
_LABEL = slice(_HEAD_BYTES - 2 + 1, _HEAD_BYTES - 2 + 1 + LABEL_BYTES)
_RESPONSE, _TRUNCATION, _OPCODE, _RCODE = 0x80, 0x02, 0x78, 0x0F
_MOST_KNOWN = 256


class Questions:
    """Queries for the TXT record of `payload_bytes` of names in the load's domain.

    Messages come without their identifier. With `unique`, no two queries of any run are for the same name; otherwise
    all are for the same one. `udp_bytes` are those of their OPT record; 0: they have none. With `cached_ttl_s`, answers
    may come from a cache.
    """

    def __init__(self, payload_bytes: int, udp_bytes: int, *, unique: bool, cached_ttl_s: int = 0) -> None:
        self._run = int.from_bytes(os.urandom(4), "big") if unique else 0
        self._unique = unique
        self._ttl_s = cached_ttl_s
        self._data = dns.text_data(text_of(payload_bytes))
        self._message = dns.edns_query(name_of(label(self._run, 0)), dns.TYPE_TXT, udp_bytes)[2:]
        self._before, self._after = self._message[: _LABEL.start], self._message[_LABEL.stop :]
        self._question = slice(_HEAD_BYTES - 2, self._message.index(b"\0", _HEAD_BYTES - 2) + 5)
        self._response_question = slice(_HEAD_BYTES, self._question.stop + 2)
        self._right: set[bytes] = set()
        self._right_of_one: set[bytes] = set()

    def message(self, number: int) -> bytes:
        """Return the query with that number, without its identifier."""
        return self._before + label(self._run, number) + self._after if self._unique else self._message

    def trouble(self, response: bytes, message: bytes) -> str:
        """Judge the response to a query, whose identifier has been compared.

        Return "" if it has the record that the server was given, `TRUNCATED`, or the kind of failure.
        """
        if response[2:] in self._right_of_one and message is self._message:
            return ""
        rest, same = b"", response[self._response_question] == message[self._question]
        if same:
            rest = response[2:_HEAD_BYTES] + response[self._response_question.stop :]
            if rest in self._right:
                if not self._unique:
                    self._right_of_one.add(response[2:])
                return ""
            if _is_truncated(response):
                return TRUNCATED
        found = dns.records_answer(response, message[self._question], (self._data,), self._ttl_s)
        asked = message[_LABEL]
        if found.trouble:
            kind = f"{CONTENT}: dns" if found.differs else PROTOCOL
            return f"{kind}: {found.trouble}".replace(asked.decode("ascii"), "*")
        # Without the label in it, the rest says the same about any name: its record can only point to the question.
        if same and asked not in rest.lower() and len(self._right) < _MOST_KNOWN:
            self._right.add(rest)
        return ""


def _is_truncated(response: bytes) -> bool:
    """Return whether this response without error has been cut, whatever it still holds (RFC 2181, section 9)."""
    first, second = response[2], response[3]
    return bool(first & _TRUNCATION and first & _RESPONSE) and not first & _OPCODE and not second & _RCODE
