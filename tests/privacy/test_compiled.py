"""The kernel cache cannot serve machine code of other sources."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprl.privacy import compiled


def test_digest_follows_every_source_of_the_three_rooms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for room in ("privacy", "envs", "algorithms", "platform"):
        (tmp_path / room).mkdir()
        (tmp_path / room / "base.py").write_text("x = 1\n")
    monkeypatch.setattr(compiled, "__file__", str(tmp_path / "privacy" / "compiled.py"))

    def digest() -> str:
        compiled.source_digest.cache_clear()
        return compiled.source_digest()

    try:
        seen = {digest()}
        for room in ("privacy", "envs", "algorithms"):
            (tmp_path / room / "base.py").write_text("x = 2\n")
            seen.add(digest())
        assert len(seen) == 4
        (tmp_path / "platform" / "base.py").write_text("x = 2\n")
        assert digest() in seen
    finally:
        compiled.source_digest.cache_clear()


def test_old_caches_are_dropped_and_foreign_files_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    (tmp_path / "mine").mkdir()
    for i in range(12):
        (tmp_path / f"kernels-{i}").mkdir()
    compiled.prepared_folder.cache_clear()
    try:
        assert Path(compiled.prepared_folder()) == compiled.cache_folder()
    finally:
        compiled.prepared_folder.cache_clear()
    assert compiled.cache_folder().is_dir()
    assert len(list(tmp_path.glob("kernels-*"))) == 6
    assert (tmp_path / "mine").is_dir()


def test_a_cache_that_cannot_be_written_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "file"))
    compiled.prepared_folder.cache_clear()
    try:
        folder = Path(compiled.prepared_folder())
    finally:
        compiled.prepared_folder.cache_clear()
    assert folder.is_dir()
    folder.rmdir()
