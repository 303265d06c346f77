"""What the type checker cannot see: who may seal counts, and what a learner may read of a privatizer's state."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SEALERS = {"issue_private_counts", "issue_report", "_ReportSeal", "_CountsSeal"}
UNRELEASED = {"totals", "message", "noisy", "rows", "sender", "receiver"}


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


def is_channel(node: ast.expr) -> bool:
    """Whether an expression is called a channel."""
    return (isinstance(node, ast.Name) and node.id == "channel") or (
        isinstance(node, ast.Attribute) and node.attr.lstrip("_") == "channel"
    )


def unreleased_reads(source: str) -> set[str]:
    """The ways in which `source` reads what a Channel or a privatizer's state holds unreleased."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name) if name in UNRELEASED:
                found.add(f".{name}")
            case ast.Subscript(value=value) if is_channel(value):
                found.add("channel[...]")
            case ast.Assign(targets=[ast.Tuple() | ast.List(), *_], value=value) if is_channel(value):
                found.add("unpacked channel")
            case ast.Starred(value=value) if is_channel(value):
                found.add("*channel")
            case ast.Subscript(slice=ast.Constant(value="totals")):
                found.add("['totals']")
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=name), *_]) if name in UNRELEASED:
                found.add(f"getattr {name}")
            case ast.MatchClass(kwd_attrs=names) if UNRELEASED & set(names):
                found.add("match")
            case _:
                pass
    return found


def python_files(root: Path, *rooms: str) -> list[Path]:
    return [path for room in rooms for path in sorted((root / room).rglob("*.py"))]


def test_only_the_privacy_room_seals_counts(root: Path) -> None:
    for path in python_files(root, "envs", "algorithms", "platform", "benchmarks"):
        assert not names_used(path.read_text()) & SEALERS, path


def test_learners_and_platform_read_nothing_that_is_not_released(root: Path) -> None:
    for path in python_files(root, "algorithms", "platform"):
        assert not unreleased_reads(path.read_text()), path


@pytest.mark.parametrize(
    "leak",
    [
        "x = channel.receiver",
        "f(self.privatizer.channel.sender.message)",
        "y = state.rows[0]",
        "channel[9]",
        "self.privatizer.channel[9]",
        "*_, totals, noise, released = channel",
        "f(*channel)",
        "privatizer.state_dict()['totals']",
        "getattr(channel, 'totals')",
        "match channel:\n    case Channel(totals=t):\n        pass",
    ],
)
def test_the_check_sees_a_leak(leak: str) -> None:
    assert unreleased_reads(leak)


@pytest.mark.parametrize(
    "leak", ["from dprl.privacy.base import issue_private_counts", "base.issue_report(1)", "x = base._CountsSeal"]
)
def test_the_check_sees_a_forged_seal(leak: str) -> None:
    assert names_used(leak) & SEALERS
