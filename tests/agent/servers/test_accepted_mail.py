"""Accepted messages are counted in the server's own files and compared, on real Postfix and aiosmtpd."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import smtplib
from array import array
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.agent.host_state.private_dir import private_folder
from pytest_ipperf.agent.load.runner import load
from pytest_ipperf.agent.load.spec import LoadSpec
from pytest_ipperf.agent.servers import accepted_mail
from pytest_ipperf.agent.servers.accepted_mail import ExpectedMail, QueuedMail, check_accepted, reserve_space
from pytest_ipperf.agent.servers.server_process import ServerProcess
from pytest_ipperf.agent.sockets.ports import free_port
from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.core.portable.server_state import ServerState
from pytest_ipperf.protocols import application
from pytest_ipperf.servers import SERVERS
from pytest_ipperf.servers.base import Server, Site
from pytest_ipperf.servers.postfix import _records
from tests.agent.servers.lying_smtp import LIARS, LyingAiosmtpd

ADDRESSES = {4: "127.0.0.1", 6: "::1"}
SMTP = application("smtp")
# Headers in unusual order and spacing, a folded field, fields that servers drop or write themselves, dots, long lines,
# 8-bit bytes.
OWN = (
    b"Subject:  two  spaces\r\nReceived: from elsewhere\r\n\tby here\r\nBcc: <someone@ipperf.test>\r\n"
    b"Return-Path: <own@ipperf.test>\r\nContent-Length: 3\r\nFrom: nobody\r\n\r\n"
    b".\r\n..\r\n.leading\r\ntext \r\n\r\nFrom here\r\n" + b"x" * 900 + b"\r\n\xe9\xff\x80\r\n.\r\n"
)
HEADLESS = b".no header at all\r\n.\r\n"
MISSING = "expected each message that it said it accepted once in its files, seen some missing"
ANOTHER = "expected each message in its files to be the one that was sent, seen another: "
servers = pytest.mark.parametrize("name", LIARS)


def installed(name):
    if why := SERVERS[name].missing():
        pytest.skip(f"{name} cannot run here: {why}")


class Bench:
    """A running server, and the runs against it."""

    def __init__(self, recipe, instance, state):
        self.recipe, self.instance, self.state = recipe, instance, state

    def sent(self, *, ipver=4, connections=10, bursts=3, payload=1000, **settings):
        """Run; return what the client reports."""
        result = load(
            LoadSpec(
                protocol="smtp", client=settings.pop("client", "lean"), payload_bytes=payload, connections=connections,
                bursts=bursts, ipver=ipver, resolver="", resolver_port=0, name=ADDRESSES[ipver],
                port=self.instance.site.port, source="", deadline_s=30.0, ident=0,
                state=ServerState(content=self.state.content), **settings,
            )
        )  # fmt: skip
        assert self.instance.wait_quiet(20.0) == ""
        return result

    def looked(self, result):
        """Return what the server has of a run: the failed connections, and the sentences."""
        found = check_accepted(self.recipe, self.instance.site, QueuedMail(self.recipe.name, "smtp", result.indices))
        assert list(self.recipe.kept(self.instance.site)) == []
        return list(array("Q", found.failed)), found

    def checked(self, **settings):
        """Make a run without failures at the client; return it with the server's check."""
        result = self.sent(**settings)
        assert result.failed == {}
        return self.looked(result)


@contextlib.contextmanager
def bench(name, lie="", content=b"", payload=1000):
    installed(name)
    recipe: Server = LIARS[name](lie) if lie else SERVERS[name]
    state = SMTP.filled(ServerState(content), payload)
    with private_folder() as folder:
        addresses = tuple(ADDRESSES.values())
        port = free_port(addresses, 20000, 29999, random.Random())
        instance = ServerProcess(recipe, Site(str(folder / name), addresses, port, 60, state))
        instance.start()
        try:
            yield Bench(recipe, instance, state)
        finally:
            instance.stop()


@servers
def test_an_honest_server_has_every_message_of_a_run_and_no_other(name):
    with bench(name) as made:
        for first, settings in enumerate([{"ipver": 4}, {"ipver": 6}, {"workers": 2}]):
            failed, found = made.checked(first_index=1000 * first, **settings)
            assert (failed, found.compared, found.sentences) == ([], 30, ())


@servers
def test_the_library_client_says_which_message_is_whose_too(name):
    pytest.importorskip("aiosmtplib")
    with bench(name) as made:
        result = made.sent(client="library", first_index=7, bursts=1)
        assert list(array("Q", result.indices)) == list(range(7, 17))
        assert made.looked(result)[0] == []


@servers
def test_hosts_that_share_a_run_are_counted_together(name):
    with bench(name) as made:
        halves = [made.sent(offset=offset, stride=2) for offset in range(2)]
        indices = b"".join(each.indices for each in halves)
        assert sorted(array("Q", indices)) == list(range(30))
        assert made.looked(SimpleNamespace(indices=indices))[0] == []


@servers
@pytest.mark.parametrize("content", [OWN, HEADLESS], ids=["own", "headless"])
def test_a_suites_own_message_is_kept_byte_by_byte(name, content):
    with bench(name, content=content) as made:
        assert made.checked()[0] == []
        result = made.sent(first_index=50, bursts=1)
        other = ServerState(content[:-3] + b"!\r\n")
        made.instance._site = dataclasses.replace(made.instance.site, state=other)
        assert len(made.looked(result)[0]) == 10  # or nothing would have been compared


@servers
def test_a_server_that_drops_one_in_ten_is_caught(name):
    with bench(name, "drops") as made:
        failed, found = made.checked(connections=50, bursts=6)
        assert 0 < len(failed) < 150  # at Postfix by chance, none with a probability of 2e-14
        assert found.kept == 300 - len(failed)
        assert found.sentences == (MISSING,)


@servers
def test_a_server_that_changes_a_byte_is_caught(name):
    with bench(name, "changes") as made:
        failed, found = made.checked()
        assert sorted(failed) == list(range(30))
        assert (found.compared, found.wrong, len(found.sentences)) == (30, 30, 1)
        assert found.sentences[0].startswith(ANOTHER)


@servers
def test_a_server_that_stores_by_ipv4_alone_is_caught(name):
    with bench(name, "four") as made:
        assert made.checked(ipver=4)[0] == []
        failed, found = made.checked(ipver=6, first_index=100)
        assert sorted(failed) == list(range(100, 130))
        assert (found.kept, found.sentences) == (0, (MISSING,))


def test_a_message_that_is_stored_twice_is_not_one_that_is_missing():
    """If messages were only counted, a server could hide a drop behind a duplicate."""
    with bench("aiosmtpd", "doubles") as made:
        failed, found = made.checked()
        assert len(failed) == 3
        assert (found.repeated, found.sentences) == (3, (MISSING.replace("missing", "more than once"),))


@servers
def test_messages_of_nobodys_and_of_another_run_neither_count_nor_stay(name):
    with bench(name) as made:
        made.sent()
        port = made.instance.site.port
        with smtplib.SMTP("127.0.0.1", port, local_hostname="client.ipperf.test", timeout=60) as client:
            client.sendmail("somebody@ipperf.test", "server@ipperf.test", b"Subject: x\r\n\r\nx\r\n")
        made.instance.wait_quiet(20.0)
        assert made.looked(SimpleNamespace(indices=array("Q", [100, 3]).tobytes()))[0] == [100]


@servers
def test_large_messages_are_drawn_and_stand_for_the_rest(name):
    with bench(name, "changes", payload=500_000) as made:
        failed, found = made.checked(payload=500_000, connections=6, bursts=2)
        assert sorted(failed) == list(range(12))
        assert found.compared == accepted_mail.COMPARED_BYTES // 500_000 == 4
        assert (found.wrong, found.sentences[0].startswith(ANOTHER)) == (4, True)
    with bench(name, payload=4_000_000) as made:
        failed, found = made.checked(payload=4_000_000, connections=2, bursts=1)
        assert (failed, found.compared) == ([], 1)


def test_nobody_can_know_which_messages_are_drawn(monkeypatch):
    """Not by their order: another draw is different."""
    monkeypatch.setattr(accepted_mail, "COMPARED_BYTES", 5000)
    drawn: list[int] = []

    class Spy(LyingAiosmtpd):
        def message(self, kept):
            drawn.append(int(os.path.basename(kept.path), 16) % 100)  # noqa: PTH119 - it is a text
            return super().message(kept)

    with bench("aiosmtpd") as made:
        made.recipe = Spy("")
        for _ in range(2):
            made.checked(connections=50, bursts=2)
    assert len(set(drawn[:5])) == len(set(drawn[5:])) == 5
    assert set(drawn[:5]) != set(drawn[5:])  # but once in 75 million times


@servers
def test_what_is_kept_must_have_room(name):
    with bench(name) as made:
        made.sent()
        with pytest.raises(LabError, match=r"keeps the messages of a run .* 1000000000000 of 1000 bytes need \d+ MiB"):
            reserve_space(made.recipe, made.instance.site, ExpectedMail(name, 10**12))
        assert list(made.recipe.kept(made.instance.site)) == []
        reserve_space(made.recipe, made.instance.site, ExpectedMail(name, 1000))


def test_as_many_files_must_have_room_as_there_are_messages(monkeypatch):
    with bench("aiosmtpd") as made:
        disk = os.statvfs(made.instance.site.folder)
        monkeypatch.setattr(accepted_mail, "_BESIDE_BYTES", -1000)
        if not disk.f_files:
            pytest.skip("this file system has no fixed number of files")
        with pytest.raises(LabError, match=r"need as many files and .* has room for \d+: remove some"):
            reserve_space(made.recipe, made.instance.site, ExpectedMail("aiosmtpd", disk.f_files + 1))


def test_a_server_that_begins_again_keeps_what_was_there_before():
    with bench("aiosmtpd") as made:
        made.sent()
        made.instance.stop()
        made.instance.start()
        assert made.sent().failed == {}
        assert len(list(made.recipe.kept(made.instance.site))) == 60


def test_the_length_of_a_queue_files_record_ends_after_32_bits():
    assert [len(value) for _, value in _records(b"N" + b"\xff" * 1000)] == [995]


TRACE = b"Return-Path: <a@b>\r\nDelivered-To: x\r\nReceived: from x\r\n\tby y; z\r\n"
STATE = ServerState(b"Subject: s\r\n\r\nbody\r\n")


@pytest.mark.parametrize(
    "kept",
    [STATE.content, STATE.content.replace(b"\r\n", b"\n"), TRACE + STATE.content, b"X-Any: thing\n" + STATE.content],
)
def test_trace_headers_on_top_are_no_difference(kept):
    assert SMTP.difference(STATE, kept) == ""


@pytest.mark.parametrize(
    "kept",
    [
        b"", b"\r\n" + STATE.content, TRACE + b"\r\n" + STATE.content, STATE.content + b"\r\n", STATE.content[:-2],
        b"To: you\r\n" + STATE.content, STATE.content.replace(b"body", b"Body"), STATE.content + STATE.content,
        b"text\r\n" + STATE.content, STATE.content.replace(b"s\r\n", b"s\r\nX-Any: thing\r\n"), TRACE,
    ],
)  # fmt: skip
def test_anything_else_is_a_difference(kept):
    assert SMTP.difference(STATE, kept)


@given(st.data())
def test_no_mutation_of_a_message_passes_for_it(data):
    sent = SMTP.filled(ServerState(), 300)
    at = data.draw(st.integers(0, len(sent.content) - 1))
    end = data.draw(st.integers(at, min(len(sent.content), at + 5)))
    mutated = sent.content[:at] + data.draw(st.binary(max_size=5)) + sent.content[end:]
    same = mutated.replace(b"\r\n", b"\n") == sent.content.replace(b"\r\n", b"\n")
    assert bool(SMTP.difference(sent, mutated)) != same
    assert len(SMTP.difference(sent, mutated)) < 200
