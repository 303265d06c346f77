"""Digests depend on code only: rewording a docstring renames no cell and redraws no noise."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprl import sources
from dprl.sources import tree_or_bytes

source_digest = sources.source_digest.__wrapped__

CODE = b"""def f(x: int, *, y: float = 1.0) -> float:
    \"\"\"Return a sum.\"\"\"
    return -x + y if x else f"{y:.3f}"  # a comment
"""
TREE = (
    "(Module body=[(FunctionDef name='f' args=(arguments args=[(arg arg='x' annotation=(Name id='int' ctx=(Load)))]"
    " kwonlyargs=[(arg arg='y' annotation=(Name id='float' ctx=(Load)))] kw_defaults=[(Constant value=1.0)])"
    " body=[(Return value=(IfExp test=(Name id='x' ctx=(Load))"
    " body=(BinOp left=(UnaryOp op=(USub) operand=(Name id='x' ctx=(Load))) op=(Add) right=(Name id='y' ctx=(Load)))"
    " orelse=(JoinedStr values=[(FormattedValue value=(Name id='y' ctx=(Load)) conversion=-1"
    " format_spec=(JoinedStr values=[(Constant value='.3f')]))])))] returns=(Name id='float' ctx=(Load)))])"
)


def _write(folder: Path, name: str, source: bytes = CODE) -> None:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(source)


@pytest.fixture
def top(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three code folders and another with a file each, of which no digest is known."""
    for room in ("privacy", "envs", "algorithms", "platform"):
        _write(tmp_path, f"{room}/base.py")
    monkeypatch.setattr(sources, "_TOP", tmp_path)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def test_the_tree_is_the_same_text_in_every_python() -> None:
    assert tree_or_bytes("a.py", CODE).decode() == TREE


@pytest.mark.parametrize(
    ("old", "new", "counts"),
    [
        (b"Return a sum.", b"Return the sum\n    of two numbers.", False),
        (b"# a comment", b"# another", False),
        (b"def f(", b"\n\n# moved down\ndef f(\n    ", False),
        (b"return", b"'a string alone'\n    return", False),
        (b"1.0", b"1.00", False),
        (b"1.0", b"1", True),
        (b"1.0", b"2.0", True),
        (b"+ y", b"- y", True),
        (b"-x + y", b"-(x + y)", True),
        (b"*, ", b"", True),
        (b".3f", b".4f", True),
        (b"def f", b"@kernel\ndef f", True),
    ],
)
def test_code_counts_and_text_does_not(top: Path, old: bytes, new: bytes, counts: bool) -> None:
    before = source_digest()
    _write(top, "envs/base.py", CODE.replace(old, new, 1))
    assert (source_digest() != before) == counts


def test_every_file_of_three_rooms_counts_with_its_name(top: Path) -> None:
    seen = {source_digest()}
    for room in ("privacy", "envs", "algorithms"):
        _write(top, f"{room}/base.py", b"x = 2")
        seen.add(source_digest())
    (top / "envs/base.py").rename(top / "envs/other.py")
    seen.add(source_digest())
    assert len(seen) == 5
    _write(top, "platform/base.py", b"x = 2")
    assert source_digest() in seen


@pytest.mark.parametrize("name", ["data.csv", "broken.py", "zeros.py"])
def test_what_is_no_python_counts_by_its_bytes(name: str) -> None:
    source = {"data.csv": b"# 1\n", "broken.py": b"def f(: # 1", "zeros.py": b"x = 1\0"}[name]
    assert tree_or_bytes(name, source) == source


def test_a_known_digest_is_read_and_a_damaged_one_is_not(top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = source_digest()
    (known,) = (top / "cache").iterdir()
    with monkeypatch.context() as patched:
        patched.setattr(sources, "tree_or_bytes", None)
        assert source_digest() == digest
    known.write_text("damaged")
    assert source_digest() == digest
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(known / "is no folder"))
    assert source_digest() == digest


def test_code_that_was_typed_in_is_not_ours(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root / "algorithms")
    assert not sources.is_ours("<stdin>")
    assert sources.is_ours("pucb.py")
