"""The tables as a person reads them; golden where the shape matters."""

import dataclasses
import textwrap

from pytest_ipperf.core.cell import Arm
from pytest_ipperf.core.effect import compare
from pytest_ipperf.core.judge import judge
from pytest_ipperf.core.margin import Margin
from pytest_ipperf.core.record import ArmSummary, Record
from pytest_ipperf.core.run import Run
from pytest_ipperf.metrics import METRICS
from pytest_ipperf.report.terminal import interval_picture, tables


def side(arm: str, *values: float, failed: int = 0) -> ArmSummary:
    return ArmSummary(
        arm=arm, values=values, attempted=60, completed=60 - failed, phases={},
        failed={"connect refused": failed} if failed else {},
    )  # fmt: skip


def record(connections: int, **change) -> Record:
    told = Record(
        cell=f"lab-smtp-c{connections}-1k-ipv6", testbed="lab", protocol="smtp", connections=connections,
        payload_bytes=1024, ipver=6, transport="native", client="lean", server="postfix 3.7.11", metric="response_time",
        design="quick", judges=True, seed=1, epochs=6, blocks=2, deadline_s=10.0, test=side("ipv6", 0.0121, 0.0123),
        reference=side("ipv4", 0.0119, 0.0121), estimate=1.7, low=-1.25, high=4.6, confidence=0.95,
        margin="10 % (at least 0.5 ms)", margin_fraction=0.1, alpha=0.05, verdict="within", reasons=(), sentence="...",
    )  # fmt: skip
    return dataclasses.replace(told, **change)


def test_a_table_has_a_column_for_each_number_of_connections_and_rows_for_each_arm():
    phases = {"dns": 0.0004, "connect": 0.0007, "first_byte": 0.0051, "total": 0.012}
    records = [
        record(100, estimate=31.6, low=25.0, high=38.9, verdict="exceeds", test=side("ipv6", 0.1571, failed=3)),
        record(10, test=dataclasses.replace(side("ipv6", 0.0121, 0.0123), phases=phases)),
    ]
    assert "\n".join(tables(records)[:15]) == textwrap.dedent(
        """\
        SMTP response time per connection in milliseconds, by connections at once
        testbed lab, server postfix 3.7.11, client lean, payload 1k, timed to '250 ... queued'

                                                      10             100
        IPv4                                        12.0            12.0
          dns / connect / first byte                   -               -
          completed                             60 of 60        60 of 60
        IPv6                                        12.2             157
          change                                  +1.7 %         +31.6 %
          95 % interval                     [-1.2, +4.6]  [+25.0, +38.9]
          margin                                    10 %            10 %
          verdict                                 within         exceeds
          dns / connect / first byte  0.40 / 0.70 / 5.10               -
          completed                             60 of 60        57 of 60
          failed: connect refused                      0               3"""
    )


def test_tables_come_in_one_order_whatever_the_order_of_the_records():
    records = [
        record(10),
        record(100),
        record(10, testbed="loopback"),
        record(10, protocol="http", server="apache 2.4"),
    ]
    assert tables(records) == tables(records[::-1])


def test_cells_of_different_servers_are_never_in_one_table():
    lines = tables([record(10), record(10, server="aiosmtpd 1.4.6 (embedded)")])
    assert sum(line.startswith("SMTP response time") for line in lines) == 2


def test_design_paper_prints_the_studys_formulas_and_says_what_they_cover():
    """Hand-computed: means 12 and 13, error 0.5774 each, Welch with 4 df: t(.95) 2.132, 1 / 0.8165 -> level 85 %."""
    change = {"design": "paper", "epochs": 1, "blocks": 3, "verdict": "inconclusive", "estimate": None, "low": None}
    told = record(
        10, **change, reference=side("ipv4", 0.011, 0.012, 0.013), test=side("ipv6", 0.012, 0.013, 0.014)
    )  # fmt: skip
    text = "\n".join(tables([told]))
    assert "study's 95 % interval       10.9 - 13.1" in text
    assert "actual increase                   +1.00" in text
    assert "percentage increase              +8.3 %" in text
    assert "confidence level                   85 %" in text
    assert "truly\ncover 91.8 %" in text
    assert "verdict" not in text


def judgement(slower: float):
    four, six = Arm(4, "native"), Arm(6, "native")
    runs = [
        Run(
            arm=arm, epoch=epoch, block=0, slot=0, warmup=False, started_at=0.0, attempted=1, failed={}, samples=(),
            value=0.02 * (1 + (arm == six) * (slower + epoch % 3 * 0.02)),
        )
        for epoch in range(6)
        for arm in (four, six)
    ]  # fmt: skip
    return judge(compare(runs, six, four, METRICS["response_time"].metric), Margin.parse("10%"))


def test_the_picture_has_the_interval_the_zero_and_the_margin_in_order():
    bar, scale = interval_picture(judgement(0.2))
    assert bar.index("[") < bar.index("o") < bar.index("]")
    assert scale.index("0") < scale.index("|") < bar.index("[")
    assert scale.endswith("0 = no change, | = margin 10 %")
    bar, scale = interval_picture(judgement(-0.2))
    assert bar.index("]") < scale.index("0") < scale.index("|")
