"""Quantities as people write them, and back: `1k`, `0.5ms`, `5min`, `10%`.

Inside the project all values are in base units (bytes, seconds, fractions); these functions convert at its borders.
"""

from __future__ import annotations

import math
import re

from pytest_ipperf.core.portable.errors import UsageError

_BYTES = {"": 1, "k": 1024, "m": 1024**2, "g": 1024**3}
_BITS = {"bit": 1.0, "kbit": 1e3, "mbit": 1e6, "gbit": 1e9}
_COUNTS = {"": 1.0, "k": 1e3, "m": 1e6}
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


def _split(text: str, units: dict[str, float] | dict[str, int]) -> tuple[float, str] | None:
    match = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z%]*)", str(text).strip().lower())
    found = (float(match[1]), match[2]) if match and match[2] in units else None
    return found if found and found[0] < math.inf else None


def parse_bytes(text: str | int) -> int:
    """Return a number of bytes: `1k` -> 1024, `64k` -> 65536, `100` -> 100; k, m and g are powers of 1024."""
    parts = _split(str(text), _BYTES)
    size = parts[0] * _BYTES[parts[1]] if parts else 0.0
    if size < 1 or size != int(size):
        raise UsageError(f"size {text!r} is not a whole number of bytes such as 512, 1k or 2m")
    return int(size)


def bytes_text(size: int) -> str:
    """Return the shortest exact text that `parse_bytes` reads: 1024 -> `1k`, 1500 -> `1500`."""
    for unit in ("g", "m", "k"):
        if size % _BYTES[unit] == 0:
            return f"{size // _BYTES[unit]}{unit}"
    return str(size)


def parse_seconds(text: str) -> float:
    """Return a number of seconds: `0.5ms` -> 0.0005, `5min` -> 300.0; the unit is required."""
    parts = _split(text, _SECONDS)
    if parts is None:
        raise UsageError(f"time {text!r} is not a number with a unit, such as 0.5ms, 10s or 5min")
    return parts[0] * _SECONDS[parts[1]]


def seconds_text(seconds: float) -> str:
    """Return a duration for people: `850 ms`, `42 s`, `3 min 05 s`, `2 h 10 min`."""
    if seconds < 0.9995:  # above, three digits of milliseconds would round to 1000
        return f"{seconds * 1000:.3g} ms"
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    if whole < 7200:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def parse_rate(text: str) -> float:
    """Return a rate in bit/s: `100mbit` -> 1e8; k, m and g are powers of 1000, as with `tc`."""
    parts = _split(text, _BITS)
    if parts is None or not parts[0]:
        raise UsageError(f"rate {text!r} is not a number of bits a second such as 512kbit, 100mbit or 1gbit")
    return round(parts[0] * _BITS[parts[1]], 3)


def rate_text(bit_s: float) -> str:
    """Return a rate for people: 1e8 -> `100 Mbit/s`."""
    size, unit = next((pair for pair in ((1e9, "G"), (1e6, "M"), (1e3, "k")) if bit_s >= pair[0]), (1.0, ""))
    return f"{bit_s / size:.4g} {unit}bit/s"


def short_rate_text(bit_s: float) -> str:
    """Return the shortest exact text that `parse_rate` reads: 1e7 -> `10mbit`."""
    unit = next((unit for unit in ("gbit", "mbit", "kbit") if bit_s >= _BITS[unit]), "bit")
    return f"{bit_s / _BITS[unit]:.15g}{unit}"


def parse_count(text: str) -> float:
    """Return a number of things, or of things a second: `100`, `20k` -> 20000.0; k and m are powers of 1000."""
    parts = _split(text, _COUNTS)
    if parts is None or not parts[0]:
        raise UsageError(f"number {text!r} is not one such as 100 or 20k")
    return round(parts[0] * _COUNTS[parts[1]], 3)


def count_text(count: float) -> str:
    """Return the shortest exact text that `parse_count` reads: 20000.0 -> `20k`."""
    unit = next((unit for unit in ("m", "k") if count >= _COUNTS[unit]), "")
    return f"{count / _COUNTS[unit]:.15g}{unit}"


def parse_percent(text: str) -> float:
    """Return a fraction: `10%` -> 0.1; the sign is required, as 0.1 could mean either."""
    parts = _split(text, {"%": 1})
    if parts is None:
        raise UsageError(f"share {text!r} is not a percentage such as 10%")
    return parts[0] / 100


def quantity_text(value: float, unit: str) -> str:
    """Return a metric's value for people, from seconds, a rate or a share: `3.92 ms`, `94.1 Mbit/s`, `4.5 %`."""
    if unit == "s":
        return seconds_text(value) if value >= 1e-3 else f"{value * 1e6:.3g} us"
    if unit == "query/s":
        return f"{value:.4g} {unit}"
    return rate_text(value) if unit == "bit/s" else f"{100 * value:.3g} %"


def parse_points(text: str) -> float:
    """Return a difference of shares given in percentage points: `0.5pp` -> 0.005."""
    parts = _split(text, {"pp": 1})
    if parts is None:
        raise UsageError(f"difference {text!r} is not a number of percentage points such as 0.5pp")
    return parts[0] / 100


def milliseconds_text(seconds: float) -> str:
    """Return a response time as milliseconds with three significant digits: 0.00392 -> `3.92`, 0.1514 -> `151`."""
    if not math.isfinite(seconds):
        return "> deadline"
    value = seconds * 1000
    digits = 2 if value < 10 else 1 if value < 100 else 0
    return f"{value:.{digits}f}"
