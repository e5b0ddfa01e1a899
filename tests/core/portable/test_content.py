"""Sentences about wrong content: where it begins, what was expected there, and what was seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_ipperf.core.portable.content import FileContent, excerpt, wrong_content, wrong_size

PAGE = b"<html>0123456789abcdefghij</html>"


@pytest.mark.parametrize(
    ("offset", "seen", "sentence"),
    [
        (0, b"<HTML>", "expected 'html>0123456789a' at offset 1 of 33 bytes, seen 'HTML>'"),
        (6, b"01234\xff\x00\n", "expected '56789abcdefghij<' at offset 11 of 33 bytes, seen '\\xff\\x00\\n'"),
        (26, b"</html>\r\n", "expected 33 bytes, seen more that begin with '\\r\\n'"),
        (33, b"x", "expected 33 bytes, seen more that begin with 'x'"),
    ],
)
def test_a_difference_is_told_with_its_place(offset, seen, sentence):
    assert wrong_content(PAGE, offset, seen) == wrong_content(PAGE, offset, memoryview(seen)) == sentence


@given(st.binary(max_size=60), st.integers(0, 80), st.binary(min_size=1, max_size=60))
def test_the_offset_is_that_of_the_first_difference(expected, offset, seen):
    offset = min(offset, len(expected))
    if expected[offset : offset + len(seen)] == seen:
        with pytest.raises(ValueError, match="do not differ"):
            wrong_content(expected, offset, seen)
        return
    right = next(at for at in range(len(seen)) if expected[offset + at : offset + at + 1] != seen[at : at + 1])
    place = f" at offset {offset + right} of " if offset + right < len(expected) else "seen more"
    assert place in wrong_content(expected, offset, seen)


def test_a_size_is_told_with_how_it_is_known():
    assert wrong_size(PAGE, 13) == "expected 33 bytes, seen 13"
    assert wrong_size(PAGE, 13, "in Content-Length") == "expected 33 bytes, seen 13 in Content-Length"


def test_an_excerpt_is_short_and_printable():
    assert excerpt(b"\x00" * 100_000) == "'" + "\\x00" * 16 + "'"
    assert len(wrong_content(b"\x01" * 10**6, 0, b"\x02" * 10**6)) < 200


MIB = 2**20


@pytest.mark.parametrize("size", [1, 15, 16, 17, MIB - 1, MIB, MIB + 1, 2 * MIB + 20])
def test_a_large_file_is_its_blocks_and_they_do_not_differ_from_it(size):
    content = FileContent(size)
    whole = b"".join(content.blocks())
    assert len(whole) == size
    for step in (size, 1448 * 7, 2**18):
        for at in range(0, size, step):
            assert content.difference(at, memoryview(whole)[at : at + step]) == ""


@given(st.integers(0, 2 * MIB + 99), st.integers(1, 5000), st.data())
def test_any_changed_byte_of_a_large_file_is_found_where_it_is(offset, length, data):
    seen = bytearray(LARGE[offset : offset + length])
    if not seen:
        return
    at = data.draw(st.integers(0, len(seen) - 1))
    seen[at] ^= 1 << data.draw(st.integers(0, 7))
    said = FileContent(len(LARGE)).difference(offset, memoryview(seen))
    assert f" at offset {offset + at} of {len(LARGE)} bytes, seen " in said


@given(st.integers(0, 2 * MIB), st.integers(0, 2 * MIB), st.integers(64, 5000))
def test_content_that_was_moved_is_found(offset, other, length):
    moved = memoryview(LARGE)[other : other + length]
    if other != offset and len(moved) >= 64:
        assert FileContent(len(LARGE)).difference(offset, moved)


def test_more_than_a_large_file_is_found():
    said = FileContent(100).difference(64, memoryview(bytes(64)))
    assert said == "expected 100 bytes, seen 128 or more"


def test_two_blocks_of_a_large_file_differ_by_their_numbers_alone():
    first, second = memoryview(LARGE)[:MIB], memoryview(LARGE)[MIB : 2 * MIB]
    assert first[16:] == second[16:]
    assert FileContent(len(LARGE)).difference(0, second).endswith(f" at offset 15 of {len(LARGE)} bytes, seen '1'")


LARGE = b"".join(FileContent(2 * MIB + 100).blocks())
