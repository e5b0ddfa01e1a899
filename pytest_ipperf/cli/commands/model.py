"""The command `model`: fit a traffic model to a flow in a capture of packets."""

from __future__ import annotations

import argparse
import datetime as dt
import re
from pathlib import Path

from pytest_ipperf.cli.commands.base import Command
from pytest_ipperf.cli.output import write_lines
from pytest_ipperf.core.captures.fit import captured_streams, fitted_model
from pytest_ipperf.core.captures.fit_quality import fit_quality
from pytest_ipperf.core.captures.flow import Flow, chosen_flow, flows_of
from pytest_ipperf.core.captures.headers import TCP
from pytest_ipperf.core.captures.model_text import model_text
from pytest_ipperf.core.captures.pcap import CaptureReader
from pytest_ipperf.core.portable.errors import LabError, UsageError
from pytest_ipperf.core.portable.traffic.model import MODEL_NAME_PATTERN, MODEL_NAME_RULE, TrafficModel
from pytest_ipperf.report.flow.fit_table import fit_lines
from pytest_ipperf.traffic_models.base import model_from_text

_SEED = "fit"


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("capture", metavar="FILE.pcap", help="a capture: pcap or pcapng, such as tcpdump -w writes")
    parser.add_argument(
        "--flow", default="", metavar="FLOW",
        help="the flow: protocol, address and port of one end, as udp/192.0.2.1:5004, each of which may be left out; "
        "default the flow with the most packets",
    )  # fmt: skip
    parser.add_argument(
        "--name", default="", metavar="NAME", help="name of the model; default that of the capture without its ending"
    )
    parser.add_argument(
        "--output", "-o", default="", metavar="FILE", help="the file to write; default NAME.toml, which must not exist"
    )


def _run(args: argparse.Namespace) -> int:
    path = Path(args.capture)
    name = args.name or re.sub(r"[^a-z0-9.]", ".", path.stem.lower())
    if not re.fullmatch(MODEL_NAME_PATTERN, name):
        raise UsageError(f"--name {name!r} is no name of a model; take {MODEL_NAME_RULE}")
    output = Path(args.output or f"{name}.toml")
    if not args.output and output.exists():
        raise UsageError(f"{output} exists; remove it, or name another file by --output")
    try:
        flows, cut = _flows(path)
        flow = chosen_flow(flows, args.flow)
        model = fitted_model(name, f"{flow}, as captured", _source(path, flow), flow)
        text = model_text(model, _remarks(model))
        # What is compared is the file's model, with the digits that it has.
        quality = [fit_quality(model_from_text(name, text), each, _SEED) for each in captured_streams(flow)]
    except UsageError as error:
        raise UsageError(f"capture {path}: {error}") from None
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LabError(f"model {output} cannot be written: {error.strerror}") from None
    write_lines([*_heading(flows, flow, model, cut=cut), *fit_lines(quality), "", f"{output}: model {name}"])
    return 0


def _flows(path: Path) -> tuple[list[Flow], bool]:
    """Return the flows of a capture, and whether the file ends within a packet."""
    try:
        reader = CaptureReader(path.read_bytes())
    except OSError as error:
        raise UsageError(f"it cannot be read: {error.strerror}") from None
    return flows_of(reader), reader.cut


def _source(path: Path, flow: Flow) -> str:
    first_ns = min(each for direction in (flow.up, flow.down) for each in direction.at_ns[:1])
    day = dt.datetime.fromtimestamp(first_ns / 1e9, tz=dt.UTC).date()
    return f"capture {path.name} of {day}"


def _remarks(model: TrafficModel) -> list[str]:
    """Return comments of the file, for people who change it."""
    spurts = any(stream.talk_s for stream in model.streams)
    return [
        "Fitted by pytest-ipperf model: sizes of payload and intervals as in the capture, drawn independently.",
        *(["Talk spurts are separated by pauses, during which nothing is sent."] if spurts else []),
    ]


def _heading(flows: list[Flow], flow: Flow, model: TrafficModel, *, cut: bool) -> list[str]:
    total = sum(each.packets for each in flows)
    among = f"of {len(flows)} flows, {flow.packets} of {total} packets" if len(flows) > 1 else f"{flow.packets} packets"
    lines = [f"{flow}: {among} with payload"]
    if model.rtp:
        lines.append(f"RTP, payload type {model.rtp.payload_type}, clock {model.rtp.clock_hz} Hz")
    if flow.protocol == TCP:
        lines.append("TCP: sizes are those of segments, as the capture shows no messages")
    if cut:
        lines.append("the capture ends within a packet; all before it were used")
    return lines


command = Command(
    help="fit a traffic model to a flow in a capture of packets",
    description=(
        "Writes a traffic model with the sizes and intervals of a flow's packets in both directions, and with talk "
        "spurts where packets at even intervals have silences between, and shows how well packets made of the model "
        "agree with those of the capture. The client is the end that opened the connection or sent first."
    ),
    arguments=_arguments,
    run=_run,
)
