"""Strategies of hypothesis: valid configs that are then broken in many ways."""

from __future__ import annotations

import copy
import json
import typing
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import yaml
from hypothesis import strategies as st

from dprl.algorithms import ALGORITHMS
from dprl.envs import ENVIRONMENTS, Logged
from dprl.platform.configs.config import config_files
from dprl.platform.configs.sections import choices
from dprl.privacy import TRUST_MODELS

Mapping = dict[str, Any]
Place = tuple[dict[Any, Any] | list[Any], Any]

TINY = {"episodes": 2, "seeds": 1}


class Case(NamedTuple):
    """A config file as bytes, and `--set` words."""

    content: bytes
    overrides: list[str]


@cache
def valid_configs() -> list[Mapping]:
    """Return the project's configs, and a small config for each algorithm and each environment that it plays.

    All are small runs; only the changes make some of them large.
    """
    found = [yaml.safe_load(file.read_text()) | {"episodes": 100, "seeds": 2} for file in config_files().values()]
    for algorithm, config in ALGORITHMS.items():
        for env, spec in ENVIRONMENTS.items():
            if issubclass(spec.builds, config.plays) and spec is not Logged:  # it needs a file
                found += [_small(algorithm, env, model) for model in TRUST_MODELS[config.releases]]
    return found


def _small(algorithm: str, env: str, model: str) -> Mapping:
    privacy = {"model": model} if model == "none" else {"model": model, "epsilon": 1.0}
    return {"name": "try", "algorithm": {"name": algorithm}, "env": {"name": env}, "privacy": privacy, **TINY}


@cache
def _known() -> tuple[list[str], list[Any]]:
    """Return all keys of all classes, all choices of their values, and all registered names."""
    keys, words = {"name", "model", "epsilon", "episodes", "seeds", "seed", "noise", "release", "audit"}, set[Any]()
    registries: tuple[typing.Mapping[str, type[Any]], ...] = (ALGORITHMS, ENVIRONMENTS, *TRUST_MODELS.values())
    for registry in registries:
        words |= set(registry)
        for cls in registry.values():
            for name, hint in typing.get_type_hints(cls).items():
                keys.add(name)
                words |= set(choices(cls, name, hint))
    return sorted(keys), sorted(words)


def _keys() -> st.SearchStrategy[Any]:
    known, _ = _known()
    misspelt = st.sampled_from(known).flatmap(
        lambda key: st.sampled_from([key[:-1], key + "s", key.upper(), f" {key}"])
    )
    odd: list[Any] = ["", ".", "a.b", "grid_search", "gridsearch", "<<", "é", "\u202e", "k" * 5000, 1, None, True, 1.5]
    return st.one_of(st.sampled_from(known), misspelt, st.sampled_from(odd))


NUMBERS: list[Any] = [
    0,
    -0.0,
    1,
    2,
    3,
    -1,
    -7,
    0.5,
    1.5,
    1e-9,
    1e-300,
    5e-324,
    1e300,
    2**31,
    2**63,
    2**64,
    10**9,
    10**5,
    10**6,
]
NUMBERS += [10**30, float("nan"), float("inf"), -float("inf"), 1e-6, 0.999999, 100.0]
TEXTS = ["", " ", "1", "1.0", "nan", "-inf", "true", "null", "none", "~", "../x", "/etc/passwd", "a/b", "x" * 100_000]
TEXTS += [
    "ünïcödé",
    "名前",
    "\u202etxt",
    "\x1b[31mred",
    "a\nb",
    "a\x00b",
    "\ud7ff",
    "{",
    "%s",
    "{0}",
    "0x10",
    "1_000",
    "1e5",
]


def _values() -> st.SearchStrategy[Any]:
    _, words = _known()
    leaves = st.one_of(
        st.sampled_from(NUMBERS),
        st.sampled_from(words),
        st.sampled_from(TEXTS),
        st.sampled_from([None, True, False]),
        st.floats(),
        st.integers(-10, 10**7),
        st.text(max_size=20),
    )
    nested = st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_keys(), inner, max_size=3)
    )
    deep = st.integers(5, 60).map(_deep)
    return st.one_of(leaves, leaves, leaves, nested, _grids(leaves), deep)


def _grids(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(leaves, max_size=4)
    inner = st.fixed_dictionaries({"grid_search": lists})
    return st.one_of(
        inner,
        st.fixed_dictionaries({"grid_search": leaves}),
        st.fixed_dictionaries({"grid_search": st.lists(inner, max_size=2)}),
        st.fixed_dictionaries({"grid_search": lists, "model": leaves}),
        st.lists(inner, min_size=1, max_size=2),
        st.just({"grid_search": list(range(20_000))}),
    )


def _deep(depth: int) -> Any:
    found: Any = 1
    for level in range(depth):
        found = [found] if level % 3 == 0 else {"a": found} if level % 3 == 1 else {"grid_search": [found]}
    return found


def places(tree: Any) -> Iterator[Place]:
    """Yield each (mapping or list, key or index) in a tree."""
    pairs = list(tree.items()) if isinstance(tree, dict) else list(enumerate(tree)) if isinstance(tree, list) else []
    for key, value in pairs:
        yield tree, key
        yield from places(value)


@st.composite
def broken_mappings(draw: st.DrawFn) -> Mapping:
    """A valid config after up to four changes at random places."""
    tree = copy.deepcopy(draw(st.sampled_from(valid_configs())))
    for _ in range(draw(st.integers(0, 4))):
        found = list(places(tree))
        if found:
            change = draw(st.sampled_from(_CHANGES))
            change(draw, *draw(st.sampled_from(found)))
    return tree


def _replace(draw: st.DrawFn, holder: Any, key: Any) -> None:
    holder[key] = draw(_values())


def _remove(draw: st.DrawFn, holder: Any, key: Any) -> None:
    del holder[key]


def _rename(draw: st.DrawFn, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[draw(_keys())] = holder.pop(key)


def _insert(draw: st.DrawFn, holder: Any, key: Any) -> None:
    if isinstance(holder, dict):
        holder[draw(_keys())] = draw(_values())
    else:
        holder.append(draw(_values()))


def _wrap(draw: st.DrawFn, holder: Any, key: Any) -> None:
    inner = holder[key]
    holder[key] = draw(st.sampled_from([[inner], {"grid_search": [inner]}, {"grid_search": inner}, str(inner)]))


def _swap(draw: st.DrawFn, holder: Any, key: Any) -> None:
    other = draw(st.sampled_from(list(holder) if isinstance(holder, dict) else list(range(len(holder)))))
    holder[key], holder[other] = holder[other], holder[key]


_CHANGES: list[Callable[[st.DrawFn, Any, Any], None]] = [
    _replace,
    _replace,
    _replace,
    _remove,
    _rename,
    _insert,
    _insert,
    _wrap,
    _swap,
]

SNIPPETS = [
    b"!!python/object/apply:os.getcwd []\n",
    b"a: !!python/name:os.system\n",
    b"seeds: !!int x\n",
    b"seed: !!binary x\n",
    b"env: &e {name: riverswim, inner: *e}\n",
    b"<<: {seeds: 2}\n",
    b"<<: 3\n",
    b"<<: *nobody\n",
    b"<<: [{seed: 1}, 2]\n",
    b"? [a, b]\n: 1\n",
    b"? {a: b}\n: 1\n",
    b"seeds: 1\nseeds: 1\n",
    b"\tseeds: 1\n",
    b"\xef\xbb\xbf",
    b"\x00",
    b"\x01",
    b"\xff\xfe",
    b"\xc3\x28",
    b"---\n",
    b"---\nname: other\n",
    b"...\n",
    b"%YAML 9.9\n---\n",
    b"seeds: 1_\n",
    b"seed: 0x10\n",
    b"seed: 0o7\n",
    b"seed: 1:30\n",
    b"audit: yes\n",
    b"- 1\n",
    b"}",
    b"[",
    b"'",
    b'"',
    b"|\n",
    b"# comment\n",
    b"seed: !!set {a}\n",
    b"seed: !x 1\n",
    b"seed: 2026-01-01\n",
    b"\xe2\x80\xa8",
    b"&a : *a\n",
    b"seed: +.inf\n",
    b"seed: 1e400\n",
    b"seed: " + b"9" * 5000 + b"\n",
    b"a: " + b"[" * 3000 + b"\n",
    b"a: " + b"{a: " * 2000 + b"\n",
    b"!!map\n",
    b"!!timestamp x\n",
    b"seed: !!float x\n",
    b"seed: !!bool x\n",
    b"seed: !!null x\n",
    b"seed: !!timestamp x\n",
    b"seed: !!omap [1]\n",
    b"seed: !!pairs [1]\n",
    b'"\\ud800": 1\n',
    b'seed: "\\ud800"\n',
    b'name: "\\ud800"\n',
    b'name: "\\e[31m"\n',
    b"\r",
    b"\x85",
    b"\xed\xa0\x80",
]
DOCUMENTS = [
    b"",
    b"\n",
    b"7\n",
    b"text\n",
    b"- 1\n- 2\n",
    b"null\n",
    b"true\n",
    b"{}\n",
    b"--- 1\n--- 2\n",
    b"\x00",
    b"\xff",
    b"[]\n",
    b".nan\n",
]


def _written(tree: Mapping, flow: bool) -> bytes:
    text = yaml.safe_dump(tree, sort_keys=False, default_flow_style=flow, allow_unicode=True)
    return str(text).encode("utf-8", errors="surrogatepass")


@st.composite
def broken_texts(draw: st.DrawFn) -> bytes:
    """A config file, sometimes with bytes put in or cut out."""
    text = _written(draw(broken_mappings()), draw(st.booleans()))
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        starts = [i + 1 for i, byte in enumerate(text[:20_000]) if byte == ord("\n")]
        at = draw(st.sampled_from([0, *starts, len(text)]) | st.integers(0, len(text)))
        cut = draw(st.sampled_from([0, 0, 0, 1, 5, 100]))
        text = text[:at] + draw(st.sampled_from(SNIPPETS) | st.binary(max_size=8)) + text[at + cut :]
    return text


SECTIONS = [
    "privacy",
    "env",
    "algorithm",
    "noise",
    "grid_search",
    "release",
    "audit",
    "name",
    "episodes",
    "seeds",
    "seed",
]
PATHS = [*SECTIONS, "privacy.epsilon", "privacy.delta", "privacy.mechanism", "privacy.counter", "privacy.model.x"]
PATHS += ["env.horizon", "env.n_states", "algorithm.name", "noise.arithmetic", "noise.entropy", "a.b.c.d", "x" * 3000]
PATHS += ["", ".", "..", "a.", ".a", "env.", "env..name", "é"]


def _overrides() -> st.SearchStrategy[str]:
    paths = st.sampled_from(PATHS)
    as_json = _values().map(_as_text)
    raw = st.sampled_from(
        [
            "",
            "{",
            "[1",
            "&a *a",
            "!!python/name:os.system",
            "{a: *b}",
            "1\n2",
            "\x00",
            "--- 1\n--- 2",
            "{<<: 1}",
            "*a",
            "%",
            "@",
            "`",
        ]
    )
    values = st.one_of(as_json, raw, st.text(max_size=10))
    return st.one_of(
        st.builds("{}={}".format, paths, values), st.builds("{}={}".format, paths, values), st.text(max_size=12), paths
    )


def _as_text(value: Any) -> str:
    return str(value) if isinstance(value, int | str) else json.dumps(value, default=str)


def cases() -> st.SearchStrategy[Case]:
    """Files and `--set` words, most of them broken."""
    content = st.one_of(*[broken_texts()] * 9, st.sampled_from(DOCUMENTS))
    return st.builds(Case, content, st.one_of(st.just([]), st.just([]), st.lists(_overrides(), min_size=1, max_size=2)))
