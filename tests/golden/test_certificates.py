"""Certificates are those of the file certificates.json, number by number: a rewrite of the core must not change them.

`DPRL_WRITE_GOLDEN=1 pytest tests/golden` rewrites the file; its diff then shows what has changed.
Sentences are left out, because they may be reworded. Numbers agree to 1e-9: other processors round differently.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from dprl.platform.configs.config import config_files, load_cells
from dprl.platform.configs.experiment import Experiment
from dprl.privacy import Certificate
from dprl.privacy.verification import verify
from tests.privacy.conftest import KINDS, _privatizer
from tests.privacy.gradients.test_privatizers import CONFIGS as GRADIENTS
from tests.privacy.gradients.test_privatizers import built as of_gradients
from tests.privacy.linear_statistics.test_privatizers import CONFIGS as STATISTICS
from tests.privacy.linear_statistics.test_privatizers import built as of_statistics

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("certificates.json")
SCHEMA = Draft202012Validator(json.loads((ROOT / "docs" / "certificate.schema.json").read_text()))
WRITES = os.environ.get("DPRL_WRITE_GOLDEN") == "1"
MOST_CELLS, LONGEST_WORD = 12, 24
Leaf = float | str | bool | None


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Leaf]]:
    """Yield the numbers and words of a certificate by their paths, no sentences."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            if key not in ("version", "checksum"):  # each version of dprl has others
                yield from leaves(each, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        for i, each in enumerate(value):
            yield from leaves(each, f"{path}[{i}]")
    elif not isinstance(value, str) or (len(value) <= LONGEST_WORD and " " not in value):
        yield path, value


def spread(cells: list[Experiment]) -> list[Experiment]:
    """Return at most MOST_CELLS of them, evenly spaced."""
    step = max(1, math.ceil(len(cells) / MOST_CELLS))
    return cells[::step]


def of_config(name: str) -> dict[str, dict[str, Leaf]]:
    """Return the certificates of a config's cells, by what is varied in them."""
    found = {}
    for i, cell in enumerate(spread(load_cells(config_files()[name]))):
        found[f"{i} {cell.algorithm.name} {cell.privacy.model}"] = leaves_of(cell.certificate())
    return found


def planned(privatizers: Mapping[str, Any]) -> dict[str, dict[str, Leaf]]:
    """Return the certificates of privatizers whose users have all submitted."""
    return {name: leaves_of(each.planned_certificate("x")) for name, each in privatizers.items()}


def leaves_of(certificate: Certificate) -> dict[str, Leaf]:
    """Return the leaves of a certificate in JSON that fits its schema and can be computed again from its fields."""
    written = json.loads(json.dumps(certificate.to_dict()))
    SCHEMA.validate(written)
    assert verify(written).differences == ()
    return dict(leaves(written))


SOURCES: dict[str, Callable[[], dict[str, dict[str, Leaf]]]] = {
    **{name: partial(of_config, name) for name in sorted(config_files())},
    "counts": lambda: planned({kind: _privatizer(kind) for kind in KINDS}),
    "gradients": lambda: planned({name: of_gradients(name) for name in GRADIENTS}),
    "statistics": lambda: planned({name: of_statistics(name) for name in STATISTICS}),
}


@pytest.fixture(scope="module")
def golden() -> Iterator[dict[str, Any]]:
    """The file's content, or what is to be written into it."""
    found: dict[str, Any] = {} if WRITES else json.loads(FILE.read_text())
    yield found
    if WRITES:
        lines = [f'"{source}": {{\n' + ",\n".join(of_one(each)) + "\n}" for source, each in sorted(found.items())]
        FILE.write_text("{" + ",\n".join(lines) + "}\n")


def of_one(certificates: Mapping[str, Any]) -> list[str]:
    return [f"{json.dumps(name)}: {json.dumps(each)}" for name, each in certificates.items()]


@pytest.mark.parametrize("source", SOURCES)
def test_certificates_are_unchanged(source: str, golden: dict[str, Any]) -> None:
    found = SOURCES[source]()
    if WRITES:
        golden[source] = found
        return
    assert found.keys() == golden[source].keys()
    changed = [
        f"{name}: {path}: {before} -> {after}"
        for name, certificate in golden[source].items()
        for path, before, after in differences(certificate, found[name])
    ]
    assert not changed, "\n".join(changed[:20])


def differences(before: Mapping[str, Leaf], after: Mapping[str, Leaf]) -> Iterator[tuple[str, Leaf, Leaf]]:
    for path in before.keys() | after.keys():
        old, new = before.get(path), after.get(path)
        numbers = type(old) in (int, float) and type(new) in (int, float)
        same = math.isclose(old, new, rel_tol=1e-9) if numbers else old == new  # type: ignore[arg-type]
        if not same:
            yield path, old, new
