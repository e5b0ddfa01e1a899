"""The choice of servers, by what is wanted and by what the host can run."""

from __future__ import annotations

import dataclasses

import pytest

from pytest_ipperf.core.portable.errors import LabError
from pytest_ipperf.lab.epoch.server_choice import choose_resolver, choose_server
from pytest_ipperf.lab.inventory.builtin import BUILTIN
from pytest_ipperf.servers import SERVERS

USABLE = dict.fromkeys(SERVERS, "")
HOST = BUILTIN["loopback"].server


@pytest.mark.parametrize(
    ("wanted", "missing", "chosen"),
    [
        ("auto", (), "postfix"),
        ("auto", ("postfix",), "aiosmtpd"),
        ("real", (), "postfix"),
        ("embedded", (), "aiosmtpd"),
        ("aiosmtpd", (), "aiosmtpd"),
        ("apache,aiosmtpd", (), "aiosmtpd"),
        ("apache", (), "postfix"),  # it says nothing about mail
        ("apache,embedded", (), "aiosmtpd"),
        ("embedded,postfix", (), "postfix"),
        ("apache,auto", ("postfix",), "aiosmtpd"),
    ],
)
def test_the_server_is_the_one_that_was_wanted(wanted, missing, chosen):
    assert choose_server("smtp", wanted, {**USABLE, **dict.fromkeys(missing, "is missing")}, HOST) == chosen


@pytest.mark.parametrize(
    ("wanted", "missing", "chosen"),
    [
        ("auto", (), "dovecot"),
        ("real", ("dovecot",), "courier"),
        ("auto", ("dovecot", "courier"), "imapd"),
        ("courier,real", (), "courier"),
    ],
)
def test_a_server_in_reserve_serves_where_it_is_named_or_no_other_real_one_can(wanted, missing, chosen):
    assert choose_server("imap", wanted, {**USABLE, **dict.fromkeys(missing, "is missing")}, HOST) == chosen


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("real", "host server: no server for smtp: postfix needs root"),
        ("postfix", "host server: no server for smtp: postfix needs root"),
        ("apache,real", "host server: no server for smtp: postfix needs root"),
        ("postfix,embedded", "host server: no server for smtp: postfix needs root"),
        ("auto", "host server: no server for smtp: postfix needs root; aiosmtpd is not installed"),
        ("exim", "no server 'exim'; there are: auto, real, embedded, "),
        ("aiosmtpd,exim", "no server 'exim'; there are: auto, real, embedded, "),
    ],
)
def test_a_server_that_cannot_be_had_is_told_and_none_is_taken_in_its_place(wanted, sentence):
    unusable_there = {**USABLE, "postfix": "postfix needs root", "aiosmtpd": "aiosmtpd is not installed"}
    with pytest.raises(LabError) as caught:
        choose_server("smtp", wanted, unusable_there, HOST)
    assert str(caught.value).startswith(sentence)


@pytest.mark.parametrize(
    ("servers", "wanted", "missing", "chosen"),
    [
        (("courier", "dovecot"), "auto", (), "courier"),
        (("courier", "dovecot"), "real", ("courier",), "dovecot"),
        (("courier",), "auto", ("courier",), "imapd"),  # embedded ones remain
        (("apache",), "auto", (), "imapd"),
        (("imapd", "dovecot"), "auto", (), "imapd"),
        (("imapd", "dovecot"), "real", (), "dovecot"),
        (("dovecot",), "embedded", (), "imapd"),
        (("dovecot",), "imapd", (), "imapd"),
    ],
)
def test_a_hosts_own_servers_come_first_and_are_its_only_real_ones(servers, wanted, missing, chosen):
    host = dataclasses.replace(HOST, servers=servers)
    assert choose_server("imap", wanted, {**USABLE, **dict.fromkeys(missing, "is missing")}, host) == chosen


def test_a_server_that_a_host_does_not_name_is_not_started_there():
    host = dataclasses.replace(HOST, servers=("dovecot",))
    for wanted in ("courier", "courier,real"):
        with pytest.raises(LabError) as caught:
            choose_server("imap", wanted, USABLE, host)
        sentence = "host server: no server for imap: courier is not among the servers of this host in hosts.ini"
        assert str(caught.value) == sentence
    assert choose_resolver("real", USABLE, host) == "nameserver"


def test_a_protocol_without_a_server_of_the_kind_is_told():
    with pytest.raises(LabError) as caught:
        choose_server("any", "real", USABLE, HOST)
    assert str(caught.value) == "host server: no server for any: there is none of kind 'real'"


@pytest.mark.parametrize(
    ("wanted", "chosen"),
    [
        ("auto", "bind"),
        ("real", "bind"),
        ("embedded", "nameserver"),
        ("apache,embedded", "nameserver"),
        ("nameserver", "nameserver"),
        ("apache", "bind"),
    ],
)
def test_the_server_of_look_ups_is_chosen_as_any_other(wanted, chosen):
    assert choose_server("dns", wanted, USABLE, HOST) == chosen


@pytest.mark.parametrize(
    ("wanted", "missing", "chosen"),
    [
        ("auto", (), "nameserver"),
        ("embedded", (), "nameserver"),
        ("postfix,apache", (), "nameserver"),
        ("real", (), "bind"),
        ("apache,real", (), "bind"),
        ("bind,embedded", (), "bind"),
        ("apache,embedded", (), "nameserver"),
        ("real", ("bind",), "nameserver"),  # it is not what is measured
        ("bind", (), "bind"),
        ("postfix,bind", (), "bind"),
        ("postfix,nameserver", (), "nameserver"),
        ("bind,nameserver", ("bind",), "nameserver"),
    ],
)
def test_names_are_told_by_the_embedded_name_server_unless_another_is_wanted(wanted, missing, chosen):
    assert choose_resolver(wanted, {**USABLE, **dict.fromkeys(missing, "is missing")}, HOST) == chosen


def test_a_name_server_that_is_named_has_to_run():
    with pytest.raises(LabError, match=r"^host server: no server for dns: named is not installed$"):
        choose_resolver("postfix,bind", {**USABLE, "bind": "named is not installed"}, HOST)


@pytest.mark.parametrize(
    ("wanted", "chosen"), [("auto", "bind"), ("real", "bind"), ("bind_forwarder", "bind_forwarder")]
)
def test_a_cache_is_measured_only_if_it_is_named(wanted, chosen):
    usable = dict.fromkeys(SERVERS, "")
    assert choose_server("dns", wanted, usable, HOST) == chosen
    if wanted == "real":
        with pytest.raises(LabError, match="no server for dns"):
            choose_server("dns", wanted, {**usable, "bind": "bind is not here"}, HOST)
