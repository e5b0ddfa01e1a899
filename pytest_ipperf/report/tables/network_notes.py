"""Write the notes on the network that all tables share: link rate, tunnel backend, and what limits the figures."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from pytest_ipperf.agent.tunnels.backends import BACKENDS
from pytest_ipperf.core.measurement.goodput_ceiling import FRAME_BYTES, HeaderOverhead
from pytest_ipperf.core.measurement.link_rate import TOLERANCE, LinkRate
from pytest_ipperf.core.measurement.token_bucket import bucket_bytes, lacking_s
from pytest_ipperf.core.portable.scaling import rate_of, time_text
from pytest_ipperf.core.portable.units import milliseconds_text
from pytest_ipperf.core.records.record import Record
from pytest_ipperf.lab.inventory.model import Links
from pytest_ipperf.report.tables.layout import Row, row
from pytest_ipperf.report.tables.paragraphs import capital

_TIME = re.compile(r"-?\b\d+(\.\d+)? m?s\b")


def testbed_text(records: Iterable[Record]) -> str:
    """Return the testbed with its links and its tunnel backends."""
    all_records = list(records)
    links = Links(rate_bit_s=all_records[0].rate_bit_s, loss=all_records[0].loss, delay_s=all_records[0].delay_s)
    do = f" {'at' if links.rate_bit_s else 'with'} {links}" if links != Links() else ""
    names = sorted({name for each in all_records for name in each.backends})
    by = ", ".join(BACKENDS[name].title if name in BACKENDS else "the hosts' own devices" for name in names)
    return f"testbed {all_records[0].testbed}{do}" + (f", tunnels by {by}" if by else "")


def client_lines(records: Sequence[Record]) -> list[str]:
    """Return the hosts that shared the connections, with the maximum and the median difference of their starts."""
    hosts = records[0].client_hosts
    if not hosts:
        return []
    clients = f"{len(hosts)} clients ({', '.join(hosts)})"
    skews = [(each.start_skew_s, each.start_skew_error_s or 0.0) for each in records if each.start_skew_s is not None]
    if not skews:
        return [f"{clients}, one of which had connections"]
    skew, error = (milliseconds_text(figure) for figure in max(skews))
    half = milliseconds_text(max(each.start_skew_median_s or 0.0 for each in records))
    return [f"{clients}, common start within {skew} ms +- {error} ms, in half of the runs {half} ms"]


def run_notes(records: Iterable[Record]) -> list[str]:
    """Return the notes on runs, such as late starts, moved clocks and use of control lines; each kind once."""
    kinds: dict[str, str] = {}
    for note in (note for each in records for side in (each.test, each.reference) for note in side.notes):
        kinds.setdefault(_TIME.sub("#", note), note)
    return [f"{capital(note)}." for note in kinds.values()]


def link_rate_notes(records: Sequence[Record]) -> list[str]:
    """Return what bounds the figures, a link rate or one machine, and whether paths had their rate."""
    if not records[0].rate_bit_s:
        return machine_notes(records)
    return [
        "Goodput: the payload that completed in the time of the bursts; at most what full packets leave of the rate,",
        f"and of the {bucket_bytes(records[0].rate_bit_s)} bytes that links pass at once as each burst begins, without",
        "their headers and 38 bytes of Ethernet.",
        *missed_notes(records),
    ]


def machine_notes(records: Sequence[Record]) -> list[str]:
    """Return the note that the processors of one machine bound the figures; empty if a network does."""
    if records[0].rate_bit_s or not records[0].one_machine:
        return []
    return ["Links without a rate, within one machine: its processors bound these figures, and no network."]


def bucket_notes(records: Iterable[Record]) -> list[str]:
    """Return the notes on the token buckets of links with a rate (docs/proof.md), which shorten times."""
    sizes: dict[float, set[int]] = {}
    for record in records:
        if record.rate_bit_s:
            sizes.setdefault(record.rate_bit_s, set()).add(record.payload_bytes)
    return [_bucket_note(rate_bit_s, sorted(each - {0})) for rate_bit_s, each in sorted(sizes.items())]


def _bucket_note(rate_bit_s: float, payload_bytes: Sequence[int]) -> str:
    """Return the note on links of a rate; the sizes in it are of datagrams over IPv4."""
    bucket, layers = bucket_bytes(rate_bit_s), HeaderOverhead(ipver=4, datagram=True)
    wire_bytes = {size: layers.ip_bytes(size) + layers.packets(size) * FRAME_BYTES for size in payload_bytes}
    smaller = {size: wire for size, wire in wire_bytes.items() if wire < bucket}
    lacks = [f"{time_text(lacking_s(rate_bit_s, wire))} of {size} bytes" for size, wire in smaller.items()]
    lacks += [f"{time_text(lacking_s(rate_bit_s, bucket))} of {'more' if smaller else 'any size'}"]
    some = lacks if len(smaller) < len(wire_bytes) or not smaller else lacks[:-1]
    return (
        f"Links pass {bucket} bytes at once, so RTT, one-way delay and buffer delay lack serialisation time, on each "
        f"link and way {', '.join(some)}."
    )


def missed_notes(records: Sequence[Record]) -> list[str]:
    """Return the note on paths that miss their rate; empty if none does."""
    rates = [side.pace for each in records for side in (each.test, each.reference) if side.pace]
    if not any(rate.too_slow for rate in rates):
        return []
    return [f"A path that misses its rate by more than {100 * TOLERANCE:.0f} % is not the requested one."]


def link_rate_rows(rates: Mapping[int, LinkRate], columns: Sequence[int]) -> list[Row]:
    """Return the row of the goodput against its ceiling, if it is known, and that of paths below their rate."""
    moved = {count: rate for count, rate in rates.items() if rate.goodput_bit_s is not None}
    rows = [row("  goodput, of at most", moved, columns, _goodput)] if moved else []
    return rows + missed_rows(rates, columns)


def missed_rows(rates: Mapping[int, LinkRate], columns: Sequence[int]) -> list[Row]:
    """Return the row of paths that were slower than their rate; empty if none was."""
    missed = {count: rate for count, rate in rates.items() if rate.too_slow}
    return [row("  path misses its rate", missed, columns, _missed)] if missed else []


def _goodput(rate: LinkRate) -> str:
    return rate_of(rate.goodput_bit_s or 0.0, rate.ceiling_bit_s)


def _missed(rate: LinkRate) -> str:
    return rate_of(rate.path_bit_s or 0.0, rate.rate_bit_s)
