"""The progress of a sweep, read from its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprl.platform.errors import UserError
from dprl.platform.results.layout import SweepStatus


def test_what_was_written_is_read(tmp_path: Path) -> None:
    file, status = tmp_path / "status.json", SweepStatus(5, 3, 1, "dprl sweep a")
    assert SweepStatus.read(file, "dprl sweep b") == SweepStatus(0, 0, 0, "dprl sweep b")
    status.write(file)
    assert SweepStatus.read(file, "dprl sweep b") == status


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"cells": null}', b'{"cells": "five"}', b"\xff"])
def test_a_damaged_file_is_reported_in_one_line(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "status.json"
    file.write_bytes(content)
    with pytest.raises(UserError, match=r"^.*status\.json: must be what an earlier call wrote, got .*; remove it$"):
        SweepStatus.read(file, "dprl sweep b")
