"""What the type checker cannot see: who may seal counts, and what a learner may read of a privatizer's state."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SEALERS = {"issue_private_counts", "_SEAL", "_Seal"}
UNRELEASED = {"totals", "report", "noise"}


def names_used(source: str) -> set[str]:
    """Every name, attribute and import in `source`."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.alias(name=name) | ast.Attribute(attr=name):
                found.add(name.rpartition(".")[2])
            case _:
                pass
    return found


def unreleased_reads(source: str) -> set[str]:
    """The fields of a Channel that hold unreleased data and are read as attributes in `source`."""
    return {node.attr for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)} & UNRELEASED


def python_files(root: Path, *rooms: str) -> list[Path]:
    return [path for room in rooms for path in sorted((root / room).rglob("*.py"))]


def test_only_the_privacy_room_seals_counts(root: Path) -> None:
    for path in python_files(root, "envs", "algorithms", "platform", "benchmarks"):
        assert not names_used(path.read_text()) & SEALERS, path


def test_learners_and_platform_read_nothing_that_is_not_released(root: Path) -> None:
    for path in python_files(root, "algorithms", "platform"):
        assert not unreleased_reads(path.read_text()), path


@pytest.mark.parametrize("leak", ["x = channel.totals", "f(self.privatizer.channel.report)", "channel.noise[0]"])
def test_the_check_sees_a_leak(leak: str) -> None:
    assert unreleased_reads(leak)


@pytest.mark.parametrize(
    "leak", ["from dprl.privacy.base import issue_private_counts", "base.issue_private_counts(1)", "x = base._SEAL"]
)
def test_the_check_sees_a_forged_seal(leak: str) -> None:
    assert names_used(leak) & SEALERS
