"""Privacy boundary in the source: only privacy/ makes released counts, and learners read nothing else of users."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path

import pytest

from tests.architecture.test_code import sources

MAKERS = {"PrivateMessages", "SubmissionRange", "Released"}
"""Classes of released or sent data; learners receive instances and make none."""
UNRELEASED = {"totals", "message", "noisy", "rows", "_changing"}


def made(source: str) -> set[str]:
    """Calls in `source` that make instances of these classes."""
    calls = [node.func for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call)]
    names = {f.id if isinstance(f, ast.Name) else f.attr for f in calls if isinstance(f, ast.Name | ast.Attribute)}
    return names & MAKERS


def is_channel(node: ast.expr) -> bool:
    """Whether an expression is called a channel."""
    return (isinstance(node, ast.Name) and node.id == "channel") or (
        isinstance(node, ast.Attribute) and node.attr.lstrip("_") == "channel"
    )


def is_handed_on(node: ast.expr, parent: ast.AST) -> bool:
    """Whether `parent` uses a channel as allowed: it reads released data, or passes it to one of our functions."""
    match parent:
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
            case ast.Attribute(attr="values", value=ast.Call(func=ast.Attribute(attr="send"))):
                found.add("a message's values")
            case _:
                pass
    return found


SENDERS = {"send_and_aggregate", "send_statistics"}
"""Functions that may receive a device's data, besides those that play the episode there."""


def device_reads(source: str) -> set[str]:
    """Functions that read a user's device although they neither play there, clear it, nor pass it to a randomizer."""
    found: set[str] = set()
    for function in ast.walk(ast.parse(source)):
        if not isinstance(function, ast.FunctionDef) or function.name == "clear_device":
            continue
        if function.name.lstrip("_").startswith(("play", "look")):
            continue
        allowed: set[ast.AST] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SENDERS:
                allowed |= {inner for argument in node.args for inner in ast.walk(argument)}
            if isinstance(node, ast.Attribute) and node.attr == "device" and node not in allowed:
                found.add(function.name)
    return found


def test_only_privacy_makes_messages_and_released_counts(root: Path) -> None:
    for path, source in sources(root, ("envs", "algorithms", "platform", "papers")):
        assert not made(source), path


def test_learners_and_platform_read_nothing_that_is_not_released(root: Path) -> None:
    for path, source in sources(root, ("algorithms", "platform", "papers")):
        assert not unreleased_reads(source), path


@pytest.mark.parametrize(
    "leak",
    [
        "x = channel.server",
        "f(self.privatizer.channel.message)",
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
        "channel._replace(n_steps=0)",
        "counts = channel.released",
        "c = privatizer.channel",
        "dict(zip(channel._fields, channel))",
        "attrgetter('server')(channel)",
        "privatizer.state_dict().get('totals')",
        "privatizer._changing()",
        "privatizer.send(record, 1).values",
    ],
)
def test_the_check_sees_a_leak(leak: str) -> None:
    assert unreleased_reads(leak)


@pytest.mark.parametrize(
    "leak", ["Released(values, 3, 1)", "counts.Released(values, 3, 1)", "PrivateMessages(1, x, y)"]
)
def test_the_check_sees_counts_that_were_not_released(leak: str) -> None:
    assert made(leak)


def test_devices_are_read_where_episodes_are_played_and_by_what_randomizes(root: Path) -> None:
    for path, source in sources(root, ("algorithms",)):
        assert not device_reads(source), path


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
    assert not device_reads("def run(users):\n    send_statistics(channel, users.device.feature, k)\n")
    assert not device_reads(f"def play(users, votes, beliefs):\n    {line}\n")
