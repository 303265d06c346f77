"""Strict reader and writer of YAML 1.2."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import yaml

from dprl.platform.errors import UserError

_MOST_NODES = 100_000  # values of a text, with those of an alias counted at each place


class _Loader(yaml.SafeLoader):
    """Scalars of YAML 1.2, no tags, no key twice in a mapping, and few values, also where aliases repeat them.

    1e-6 is a number, 010 is ten; 'no', 1_000, 0o10, 12:30 and dates are text. YAML 1.1, PyYAML's own, differs in all.
    """

    # PyYAML looks this up on the class; its type stubs declare it on the instance.
    yaml_implicit_resolvers: ClassVar[dict[str, list[tuple[str, re.Pattern[str]]]]] = {}  # type: ignore[misc]

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._nodes = 0
        self._sizes: dict[yaml.Node | None, int] = {}  # of finished nodes

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node and count its values: aliases of aliases make 2^30 in a few lines, or one that never ends.

        A tag is an error: values need none, and PyYAML fails on `!!bool x` with a traceback.
        """
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) is not None:
            raise yaml.MarkedYAMLError(problem=f"the tag {event.tag!r}", problem_mark=event.start_mark)
        before, self._nodes = self._nodes, 1
        node = super().compose_node(parent, index)
        if isinstance(event, yaml.AliasEvent):
            self._nodes = self._sizes.get(node, 0)
        if self._nodes == 0 or before + self._nodes > _MOST_NODES:
            problem = f"more than {_MOST_NODES:,} values" if self._nodes else "an alias that contains itself"
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)
        self._sizes[node] = self._nodes
        self._nodes += before
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Construct a mapping; a repeated key is an error, although PyYAML would keep the last value."""
        seen: set[object] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                continue
            if key_node.value in seen:
                twice = f"the key {key_node.value!r} twice in a mapping"
                raise yaml.MarkedYAMLError(problem=twice, problem_mark=key_node.start_mark)
            seen.add(key_node.value)
        return dict(super().construct_mapping(node, deep=deep))

    def construct_decimal(self, node: yaml.ScalarNode) -> int:
        """Return a whole number in base ten; PyYAML would read leading zeros as base eight."""
        return int(node.value)


class _Dumper(yaml.SafeDumper):
    """Quotes text that `_Loader` or a reader of YAML 1.1 would take for a number, a truth value or a date."""


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_decimal)
for _tag, _pattern, _first in (
    ("bool", r"^(?:true|True|TRUE|false|False|FALSE)$", "tTfF"),
    ("null", r"^(?:~|null|Null|NULL|)$", "~nN\0"),
    ("int", r"^[-+]?[0-9]+$", "-+0123456789"),
    ("float", r"^[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$", "-+0123456789."),
    ("float", r"^(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$", "-+."),
    ("merge", r"^<<$", "<"),
):
    for _either in (_Loader, _Dumper):
        _either.add_implicit_resolver(
            f"tag:yaml.org,2002:{_tag}", re.compile(_pattern), [*_first, *[""] * (_tag == "null")]
        )


def read_yaml(text: str, source: str) -> object:
    """Return the value of a YAML text; `source` names the text in messages.

    >>> read_yaml("{a: 010, b: 1e-6, c: 1_0, d: no}", "example.yaml")
    {'a': 10, 'b': 1e-06, 'c': '1_0', 'd': 'no'}

    Raises UserError.
    """
    try:
        parsed: object = yaml.load(text, Loader=_Loader)
        return parsed
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        problem = getattr(error, "problem", None) or error
        remedy = "check indentation, colons, brackets and repeated keys"
        raise UserError(f"{source}: must be YAML, got {problem}{where}; {remedy}") from None


def write_yaml(mapping: dict[str, Any]) -> str:
    """Return a mapping of plain values as YAML; mappings without others in them take one line."""
    return str(yaml.dump(mapping, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True))
