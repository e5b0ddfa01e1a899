"""Lines that do not fit are wrapped between words, and never within options or quantities."""

import pytest

from pytest_ipperf.report.tables.layout import fitted, refitted

ROW = "IPv6 tunnel   12.3 [10.0, 14.6]   45.6 [40.0, 50.0]"


@pytest.mark.parametrize(
    ("line", "width", "lines"),
    [
        ("it takes 61.4 ms", 16, ["it takes 61.4 ms"]),
        ("it takes 61.4 ms", 15, ["it takes", "  61.4 ms"]),
        ("a change of +22 %", 15, ["a change of", "  +22 %"]),
        ("go on with --ipperf-resume=last", 24, ["go on with", "  --ipperf-resume=last"]),
        ("it takes 61.4 ms", None, ["it takes 61.4 ms"]),
    ],
)
def test_a_line_is_wrapped_where_a_reader_would(line, width, lines):
    assert fitted(line, width) == lines


def test_a_text_that_was_wrapped_wider_is_wrapped_anew_and_tables_stay():
    text = ["Of IPv4: the mean of the ratios, as", "  the study states none.", "", ROW, "  change  1.2 %", "short"]
    assert list(refitted(text, 30)) == [
        "Of IPv4: the mean of the", "  ratios, as the study states", "  none.", "", ROW, "  change  1.2 %", "short",
    ]  # fmt: skip
    assert list(refitted(text, None)) == text
    assert list(refitted(text[:2], 30))[-1] == "  none."
