"""What the type checker cannot see: who may seal counts, and what a learner may read of a privatizer's state."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path

import pytest

SEALERS = {
    *("issue_private_counts", "issue_report", "_ReportSeal", "_CountsSeal"),
    *("issue_lease", "issue_private_messages", "_LeaseSeal", "_MessagesSeal"),
}
UNRELEASED = {"totals", "settled", "message", "noisy", "rows", "sender", "receiver", "_changing", "_channel"}


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


def is_handed_on(node: ast.expr, parent: ast.AST) -> bool:
    """Whether `parent` does with a channel what it may: read what is released, or hand it to a function of ours."""
    match parent:
        case ast.Attribute(attr="released"):
            return True
        case ast.Call(func=ast.Name(id=name)) if node in parent.args:
            return not hasattr(builtins, name)
        case _:
            return False


def unreleased_reads(source: str) -> set[str]:
    """The ways in which `source` reads what a Channel or a privatizer's state holds unreleased."""
    found: set[str] = set()
    for parent in ast.walk(ast.parse(source)):
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.expr) and is_channel(node) and not is_handed_on(node, parent):
                found.add(f"channel in {type(parent).__name__}")
        match parent:
            case ast.Attribute(attr=name) if name in UNRELEASED:
                found.add(f".{name}")
            case ast.Subscript(slice=ast.Constant(value="totals")) | ast.Constant(value="totals"):
                found.add("'totals'")
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=name), *_]) if name in UNRELEASED:
                found.add(f"getattr {name}")
            case ast.MatchClass(cls=ast.Name(id="Channel")):
                found.add("match")
            case ast.Attribute(attr="values", value=ast.Call(func=ast.Attribute(attr="encode"))):
                found.add("a message's values")
            case _:
                pass
    return found


SENDERS = {"exchange", "exchange_unreleased", "send_statistics", "send_bit"}
"""What may be given something of a device, besides the functions that play the episode there."""


def device_reads(source: str) -> set[str]:
    """Functions that read a user's device though they neither play there nor hand it to what randomises it."""
    found: set[str] = set()
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef) or function.name.lstrip("_").startswith(("play", "look")):
            continue
        allowed: set[ast.AST] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SENDERS:
                allowed |= {inner for argument in node.args for inner in ast.walk(argument)}
            if isinstance(node, ast.Attribute) and node.attr == "device" and node not in allowed:
                found.add(function.name)
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
        "match x:\n    case Channel(a, b, c):\n        pass",
        "list(channel)",
        "tuple(privatizer.channel)",
        "for x in channel:\n    pass",
        "channel._asdict()",
        "channel._replace(summed=0)",
        "c = privatizer.channel",
        "dict(zip(channel._fields, channel))",
        "attrgetter('receiver')(channel)",
        "privatizer.state_dict().get('totals')",
        "privatizer._changing()",
        "privatizer.encode(contribution, 1).values",
    ],
)
def test_the_check_sees_a_leak(leak: str) -> None:
    assert unreleased_reads(leak)


@pytest.mark.parametrize(
    "leak", ["from dprl.privacy.base import issue_private_counts", "base.issue_report(1)", "x = base._CountsSeal"]
)
def test_the_check_sees_a_forged_seal(leak: str) -> None:
    assert names_used(leak) & SEALERS


def test_devices_are_read_where_episodes_are_played_and_by_what_randomises(root: Path) -> None:
    for path in python_files(root, "algorithms"):
        assert not device_reads(path.read_text()), path


@pytest.mark.parametrize(
    "line",
    [
        "beliefs.corrections[:] = users.device.corrections",
        "metric = self._users.device.features.sum()",
        "add_vote(votes, users.device.bit[0])",
        "own = users.device",
    ],
)
def test_other_reads_of_a_device_are_found(line: str) -> None:
    assert device_reads(f"def run(users, votes, beliefs):\n    {line}\n") == {"run"}
    assert not device_reads("def run(users):\n    send_bit(channel, users.device.bit[0], k)\n")
    assert not device_reads(f"def play(users, votes, beliefs):\n    {line}\n")
