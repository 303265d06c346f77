"""Generator of docs/where_epsilon_is_spent.md, from the derivations of all registered noise."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator, Sequence
from functools import cache, reduce
from itertools import chain, product
from pathlib import Path
from typing import Any, NamedTuple

from dprl.privacy import Certificate, CountFamilies, CountFamily, LedgerError, NoiseConfig, StatisticsLayout, Streams
from dprl.privacy.counters import COUNTERS, EXACT_COUNTERS
from dprl.privacy.mechanisms import ADDITIVE, GRAMS, VECTORS
from dprl.privacy.queries.count_calibration import report_names
from dprl.privacy.queries.gradient_calibration import GradientLayout
from dprl.privacy.trust_models import TRUST_MODELS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "where_epsilon_is_spent.md"
USERS = 8
_LAYOUTS: dict[str, Any] = {
    "counts": CountFamilies(4, (CountFamily("transitions", 18, 2), CountFamily("visits", 6, 0, "transitions"))),
    "gradients": GradientLayout(12, window=4, draws=True),
    "statistics": StatisticsLayout(4, 3, 2, 2, 2),
}
_MECHANISMS = {
    "counts": [*ADDITIVE, *report_names()],
    "gradients": list(VECTORS),
    "statistics": list(GRAMS),
}
_GIVEN = {"epsilon": 1.0, "families": "one_hot", "smallest_block": 1, "rewards": "public"}
_OPTIONS: tuple[dict[str, Any], ...] = (
    {},
    {"sampling": "poisson", "population": USERS},
    {"calibration": "printed", "clipping": "device"},
)
_MODELS = {"none": "none", "jdp": "central (`jdp`)", "ldp": "local (`ldp`)", "shuffle": "`shuffle`"}
_NOTES = {
    "counts": "A user adds to one cell per step and family. Replacing the user changes two cells per step: L1 is "
    "2 H, L2 is sqrt(2 H).\nOf counts pooled over steps, one cell can change several times (`PooledFamilies.row`).",
    "gradients": "An agent sends vectors that it has clipped, so the mechanism itself bounds the change.",
    "statistics": "A user sends a Gram matrix and a vector for each stage and agent; m bounds features and values of a "
    "stage. Noisy\nreward corrections are one more release (`ldp`) or more numbers of the same one (`jdp`).",
}
_INTRODUCTION = """\
Each table follows one query from its release to epsilon: the change by one user, the counter, and the loss of one
release. Code is named in parentheses; the last table states its lemma and its file. A certificate has the same steps
with the numbers of its run (`derivation`). Terms: [privacy model](privacy_model.md), [counters](counters.md), [papers
and code](paper_map.md). `tests/docs/epsilon_page.py` generates this page from the registries, and a test keeps it up to
date."""
_SHARED = """
Every row continues in the same way, for every query and trust model:

| step | rule | symbol |
|---|---|---|
| before anything is sent | the ledger charges the submission, on disk if there is a journal | `Ledger.charge` |
| all releases, submissions and attempts of a user | adaptive composition | `compose`, `repeat`, `curve_of` |
| epsilon at a delta, delta at an epsilon | of the composed curve, rounded up | `Ledger.epsilon`, `Ledger.delta` |
| compared with the claim | `holds` if proved <= claimed at the claimed delta | `verdict` |
| anything computed from releases | post-processing is free; actions of other users: the billboard lemma | none |
"""
_SYMBOLS = {
    "dprl.privacy.ledger:Ledger.charge": "charge before release",
    "dprl.privacy.ledger:Ledger.epsilon": "epsilon of the composed curve",
    "dprl.privacy.ledger:Ledger.delta": "delta of the composed curve",
    "dprl.privacy.accounting.composition:compose": "adaptive composition of different releases",
    "dprl.privacy.accounting.composition:repeat": "adaptive composition of equal releases",
    "dprl.privacy.ledger:curve_of": "all releases of one user",
    "dprl.privacy.verdicts:verdict": "claim against proof",
    "dprl.privacy.accounting.curves:Unbounded.delta": "a release without noise has no finite epsilon",
    "dprl.privacy.queries.count_families:PooledFamilies.row": "visits of one cell add up, up to a cap",
}
"""Statements of the symbols that no derivation names."""
_SHUFFLED = {
    "dprl.privacy.accounting.shuffling:ShuffledLoss.delta": "Clones: Feldman, McMillan, Talwar 2021, Theorem 3.2"
}


class Row(NamedTuple):
    """One way to release a query's messages; `symbols` are 'module:name' -> lemma of all that compute its loss."""

    model: str
    noise: str
    counter: str
    change: str
    loss: str
    symbols: dict[str, str]


def resolved(code: str) -> Any:
    """Return the object of 'module:name'. Raises AttributeError or ImportError if there is none."""
    module, name = code.split(":")
    return reduce(getattr, name.split("."), importlib.import_module(module))


@cache
def rows(query: str) -> tuple[Row, ...]:
    """Return the rows of all settings of a query that can be built: each noise once, equal rows as one."""
    found: dict[tuple[str, ...], Row] = {}
    for certificate, model, counter in _certificates(query):
        noise = getattr(certificate.releases[0].mechanism, "name", "raw")
        if (model, noise, counter) not in found:
            found[model, noise, counter] = _row(model, f"`{noise}`", counter, certificate.to_dict()["derivation"])
    merged: dict[tuple[str, ...], Row] = {}
    for row in found.values():
        same = (row.model, row.counter, row.change, row.loss)
        merged[same] = row._replace(noise=f"{merged[same].noise}, {row.noise}") if same in merged else row
    return tuple(merged.values())


def _certificates(query: str) -> Iterator[tuple[Certificate, str, str]]:
    """Yield (certificate, trust model, counter) of everything that the registries let a config ask for."""
    for model, settings in TRUST_MODELS[query].items():
        names = inspect.signature(settings).parameters
        choices = {
            "counter": ["none", *COUNTERS, *EXACT_COUNTERS],
            "mechanism": _MECHANISMS[query],
            "delta": [0.0, 1e-6],
        }
        varied: dict[str, Any] = {name: values for name, values in choices.items() if name in names}
        given = {name: value for name, value in _GIVEN.items() if name in names}
        axes: list[Sequence[Any]] = [*varied.values(), _OPTIONS, ("fast", "exact")]
        for *chosen, options, arithmetic in product(*axes):
            if not options.keys() <= names.keys():
                continue
            asked = {**given, **dict(zip(varied, chosen, strict=True)), **options}
            try:
                streams = Streams(0, "page", NoiseConfig(arithmetic=arithmetic))
                privatizer = settings(**asked).build(_LAYOUTS[query], USERS, streams)
            except (ValueError, LedgerError):  # settings that do not fit together
                continue
            yield privatizer.planned_certificate("page"), model, str(asked.get("counter", "none"))


def _row(model: str, noise: str, counter: str, derivation: list[dict[str, Any]]) -> Row:
    if not derivation:
        return Row(model, noise, "", "any", "infinite (`Unbounded.delta`)", {})
    loss = next(step for step in derivation if step["name"].endswith("of one submission"))
    scale = next(step for step in derivation if " of the noise " in step["name"])
    before = derivation[: derivation.index(scale)]
    counted = [step for step in before if "of the counter" in step["name"]]
    change = [step for step in before if step not in counted]
    changed = _cell(change[0]) if change else f"by its class (`{_short(scale['code'])}`)"
    shown = [*(change or [{**scale, "lemma": "the mechanism bounds the loss of a message itself"}]), *counted, loss]
    symbols = {step["code"]: step["lemma"] for step in shown}
    through = f"`{counter}`: {_cell(counted[0])}" if counted else ""
    lost = _cell(loss)
    if model == "shuffle":
        symbols |= _SHUFFLED
        lost += f", then clones (`{_short(next(iter(_SHUFFLED)))}`)"
    return Row(model, noise, through, changed, lost, symbols)


def _cell(step: dict[str, Any]) -> str:
    formula = step["formula"].replace("**", "^").replace("*", "&middot;")
    return f"{formula} (`{_short(step['code'])}`)"


def _short(code: str) -> str:
    return code.split(":")[1]


def file_of(code: str) -> str:
    """Return the file of 'module:name', from the root."""
    return code.split(":", maxsplit=1)[0].removeprefix("dprl.").replace(".", "/") + ".py"


def symbols() -> dict[str, tuple[str, str]]:
    """Return ('module:name', lemma) of every symbol of the page by name. Raises ValueError if two have one name."""
    found: dict[str, tuple[str, str]] = {}
    for code, lemma in chain(_SYMBOLS.items(), *(row.symbols.items() for query in TRUST_MODELS for row in rows(query))):
        if found.setdefault(_short(code), (code, lemma))[0] != code:
            raise ValueError(f"symbols of the page must have different names, got {code} and {found[_short(code)]}")
    return found


def page() -> str:
    """Return the page in Markdown."""
    lines = [
        "# Where epsilon is spent",
        "",
        _INTRODUCTION,
        _SHARED,
    ]
    for query in TRUST_MODELS:
        lines += [f"## {query.capitalize()}", "", _NOTES[query], ""]
        lines += [
            "| trust model | noise | change by one user | in the counter | loss of one release |",
            "|---|---|---|---|---|",
        ]
        for row in rows(query):
            lines.append(f"| {_MODELS[row.model]} | {row.noise} | {row.change} | {row.counter} | {row.loss} |")
        lines.append("")
    lines += ["## Symbols and lemmas", "", "| symbol | lemma | file |", "|---|---|---|"]
    for name, (code, lemma) in sorted(symbols().items()):
        lines.append(f"| `{name}` | {lemma} | `{file_of(code)}` |")
    return "\n".join(lines) + "\n"
