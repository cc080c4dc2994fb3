# SPDX-License-Identifier: Apache-2.0
"""Files of lines that are continued."""

from pathlib import Path

import pytest

from controller.appended_lines import ForeignFileError, open_appended

HEADER = b'{"record":"header","version":1}\n'


@pytest.mark.parametrize(
    ("before", "after", "last"),
    [
        (None, HEADER, HEADER),
        (b"", HEADER, HEADER),
        (HEADER[:10], HEADER, HEADER),
        (HEADER, HEADER, HEADER),
        (HEADER + b"one\n", HEADER + b"one\n", b"one\n"),
        (HEADER + b"one\ntw", HEADER + b"one\n", b"one\n"),
    ],
)
def test_it_ends_behind_a_whole_line(
    tmp_path: Path, before: bytes | None, after: bytes, last: bytes
) -> None:
    """What is new has a header, what was cut off in a line loses that line, and goes on there."""
    path = tmp_path / "lines"
    if before is not None:
        path.write_bytes(before)
    file, found = open_appended(path, HEADER)
    with file:
        assert found == last
        file.write(b"new\n")
    assert path.read_bytes() == after + b"new\n"


@pytest.mark.parametrize("content", [b'{"my":"precious"}', b"a text\n", b'{"version":1}\n', b"\0"])
def test_another_file_is_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    """It does not begin with the header: refused by name, not a byte changed."""
    path = tmp_path / "mine"
    path.write_bytes(content)
    with pytest.raises(ForeignFileError, match=r"mine: another kind of file; expected \{"):
        open_appended(path, HEADER)
    assert path.read_bytes() == content
