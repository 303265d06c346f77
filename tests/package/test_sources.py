"""Results have a version, and the cache of kernels a digest of code."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprl import sources


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three code folders and another with a file each."""
    for room in ("privacy", "envs", "algorithms", "platform"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "base.py").write_text("x = 1\n")
    monkeypatch.setattr(sources, "_TOP", tmp_path)
    monkeypatch.setattr(sources, "plugin_sources", lambda packages=None: iter(()))
    return tmp_path


@pytest.mark.usefixtures("top")
def test_the_version_of_results_is_a_number_without_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sources.results_version.__wrapped__() == str(sources.RESULTS_VERSION)
    monkeypatch.setattr(sources, "plugin_sources", lambda packages=None: iter([("ours.py", b"x = 1")]))
    number, digest = sources.results_version.__wrapped__().split("-")
    assert (int(number), len(digest)) == (sources.RESULTS_VERSION, 16)


def test_every_byte_and_name_of_the_kernels_folders_counts_in_the_digest(top: Path) -> None:
    digest = sources.code_digest.__wrapped__
    seen = [digest()]
    for change in (
        lambda: (top / "privacy" / "base.py").write_text("x = 2\n"),
        lambda: (top / "privacy" / "base.py").rename(top / "privacy" / "other.py"),
        (top / "envs" / "new.py").touch,
        (top / "algorithms" / "base.py").unlink,
    ):
        change()
        seen.append(digest())
    assert len(set(seen)) == len(seen)
    (top / "platform" / "base.py").write_text("x = 2\n")
    assert digest() == seen[-1]


def test_files_outside_are_not_ours() -> None:
    assert not sources.is_ours("<stdin>")
    assert not sources.is_ours(__file__)
    assert not sources.is_digested(__file__)
    assert sources.is_digested(str(Path(sources.__file__).resolve().parent.parent / "privacy" / "base.py"))
