"""SMTP servers that answer `250 ... queued` and lose, change or duplicate messages.

By name: `drops` one in ten, `changes` a byte of each body, `four` stores messages by IPv4 alone, and aiosmtpd's
`doubles` stores one in ten twice. Postfix is made to lie by its own tables, aiosmtpd by a handler of this file.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import replace

from pytest_ipperf.servers import aiosmtpd, postfix
from pytest_ipperf.servers.base import Entry, Site

_TABLES = {
    "drops": "smtpd_end_of_data_restrictions = check_client_access randmap:{DISCARD" + ",OK" * 9 + "}\n",
    "changes": "body_checks = regexp:%s/etc/lie\n",
    "four": "smtpd_end_of_data_restrictions = check_client_access regexp:%s/etc/lie\n",
}
_LIE = {"changes": b"/^The quick/ REPLACE The quack\n", "four": b"/:/ DISCARD\n"}


class LyingPostfix(postfix.Postfix):
    def __init__(self, lie: str) -> None:
        self._lie = lie

    def entries(self, site: Site) -> Sequence[Entry]:
        table = _TABLES[self._lie]
        lie = (table % site.folder if "%s" in table else table).encode()
        made = [
            replace(each, content=each.content + lie)
            if each.path == "etc/main.cf" and isinstance(each.content, bytes)
            else each
            for each in super().entries(site)
        ]
        return [*made, *([Entry("etc/lie", _LIE[self._lie], 0o644)] if self._lie in _LIE else [])]


class LyingAiosmtpd(aiosmtpd.Aiosmtpd):
    def __init__(self, lie: str) -> None:
        self._lie = lie

    def argv(self, site: Site) -> Sequence[str]:
        return ("python", "-m", __spec__.name, self._lie, super().argv(site)[-1])


class LyingKeep(aiosmtpd.Keep):
    def __init__(self, folder: str, lie: str) -> None:
        super().__init__(folder)
        self._lie, self._count = lie, 0

    async def handle_DATA(self, server, session, envelope):  # noqa: N802 - the name that aiosmtpd calls
        self._count += 1
        if self._lie == "four" and ":" in session.peer[0]:
            return "250 2.0.0 Ok: queued as A LIE"
        if self._lie == "changes":
            envelope.content = envelope.content.replace(b"The quick", b"The quack", 1)
        if self._count % 10 == 0:
            if self._lie == "drops":
                return "250 2.0.0 Ok: queued as A LIE"
            if self._lie == "doubles":
                await super().handle_DATA(server, session, envelope)
        return await super().handle_DATA(server, session, envelope)


LIARS: dict[str, type[LyingPostfix | LyingAiosmtpd]] = {"postfix": LyingPostfix, "aiosmtpd": LyingAiosmtpd}


def main(lie: str, config: str) -> None:
    """Serve until SIGTERM."""
    settings = json.loads(config)
    keep = LyingKeep(settings["folder"], lie)
    aiosmtpd.Keep = lambda _: keep  # type: ignore[assignment, misc]
    asyncio.run(aiosmtpd._serve(**settings))


if __name__ == "__main__":
    main(*sys.argv[1:])
