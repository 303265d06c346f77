"""Verification and composition of certificates, from their own fields alone."""

from __future__ import annotations

import json
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dprl.privacy.base import LedgerError
from dprl.privacy.certificate import NOT_ITS_OWN, OPEN_CHANNELS, SCHEMA, Certificate, certify, checksum
from dprl.privacy.designs import PRIVACY_SETTINGS
from dprl.privacy.ledger import Ledger
from dprl.privacy.noise_design import NoiseDesign, Release
from dprl.privacy.queries.count_layout import CountFamilies, PooledFamilies
from dprl.privacy.queries.gradients import GradientLayout
from dprl.privacy.queries.linear_statistics import StatisticsLayout
from dprl.privacy.randomness.streams import NoiseConfig

_REFUSED = (ValueError, LedgerError, ArithmeticError, MemoryError)  # errors raised for facts that no run can have
_DAMAGE = (KeyError, TypeError, AttributeError, IndexError, RecursionError)
_TOLERANCE, _ZERO = 1e-9, 1e-15  # relative and absolute tolerances, above the differences between processors
_MOST_GROUPS, _MOST_ATTEMPTS, _MOST_USERS = 1000, 1_000_000, 10**13
_COMPOSED, _KINDS = "composed", ("sequential", "disjoint")
_FACTS, _OPEN = "facts", "excluded_channels"
TAKEN_AS_STATED = (
    *("algorithm", "request", "users", "attempts", "users_asked_again", "simulation", "composition"),
    "audit",
)
"""Fields with facts that do not follow from other fields; all others are computed from them."""
_DATA: dict[str, tuple[type[Any], str]] = {
    CountFamilies.__name__: (CountFamilies, "counts"),
    PooledFamilies.__name__: (PooledFamilies, "counts"),
    GradientLayout.__name__: (GradientLayout, "gradients"),
    StatisticsLayout.__name__: (StatisticsLayout, "statistics"),
}
"""Layouts of users' data, with the kind of data, by the name on a certificate."""

Leaf = float | str | bool | None
Path = tuple[str | int, ...]
"""Keys of mappings, indices of lists, and _LENGTH of a list; a tuple, because keys may contain dots."""
_LENGTH = -1


def _number(value: Leaf) -> float:
    """Return a number of a certificate; NaN, which passes no comparison, for anything else."""
    return float(value) if value == "inf" or type(value) in (int, float) else math.nan  # type: ignore[arg-type]


@dataclass(frozen=True)
class Difference:
    """A field that contradicts the others: its path, its stated value, and the value that follows from the others.

    The correct checksum is not disclosed: `recomputed` is None for it. Facts that no run can have are reported as the
    field 'facts', with the reason as `recomputed`.
    """

    field: str
    stated: Leaf
    recomputed: Leaf

    def __str__(self) -> str:
        if self.field == "checksum":
            return "checksum does not match: the file was edited"
        if self.field == _FACTS:
            return f"no run has the stated facts: {self.recomputed}"
        return f"{self.field} is {self.stated!r}, recomputed {self.recomputed!r}"


@dataclass(frozen=True)
class Verification:
    """Result of recomputing a certificate.

    differences: fields that contradict the others; certificate: the recomputed one, None if no such noise exists.
    """

    differences: tuple[Difference, ...]
    certificate: Certificate | None

    @property
    def stands(self) -> bool:
        """Whether every recomputed field is the stated one."""
        return not self.differences


def verify(stated: Mapping[str, Any]) -> Verification:
    """Recompute a certificate from the facts that it states, by the code that makes certificates.

    The request, with its settings and the layout of a user's data, gives the design of noise again; with the charges it
    gives the proof, the verdict and everything else. A composed certificate is composed again from its parts. All
    fields must agree, except for TAKEN_AS_STATED, which must be facts of a possible run, and any other field is an
    error. This holds whatever version the certificate states: anybody can write another one into it.

    A wrong scale in the code is computed again alike, but then the verdict says that the claim fails, because the proof
    follows from scale and sensitivity. A wrong sensitivity in the code is not seen here: audits attack from raw
    records, and a reference accountant of the tests counts changes from the layout.
    Raises LedgerError for a damaged certificate, and for one of an earlier schema.
    """
    if not isinstance(stated, Mapping):
        raise LedgerError(f"a certificate must be a mapping, got {type(stated).__name__}; name certificate.json")
    schema = stated.get("schema")
    if schema != SCHEMA:
        if isinstance(schema, str) and schema.startswith(SCHEMA.partition("/")[0]):
            made = f"{schema} of dprl {stated.get('version', 'earlier')}"
            raise LedgerError(f"schema must be {SCHEMA}, got {made}; run it again, or verify it with that version")
        raise LedgerError(f"schema must be {SCHEMA}, got {schema!r}; name a certificate.json of dprl")
    try:
        found = replace(_recomputed(stated), audit=stated["audit"])
        expected = json.loads(json.dumps(found.to_dict()))
        differences = (*_differences(stated, expected), *_refuted_by_audit(stated, found))
        if stated["checksum"] != checksum(stated):
            differences = (Difference("checksum", stated["checksum"], None), *differences)
    except _REFUSED as error:
        return Verification((Difference(_FACTS, None, " ".join(str(error).split())),), None)
    except _DAMAGE as error:
        told = f"no {error}" if isinstance(error, KeyError) else f"an invalid value ({' '.join(str(error).split())})"
        rule = f"a certificate must have all fields of {SCHEMA} with valid values"
        raise LedgerError(f"{rule}, got {told}; restore the file") from error
    return Verification(differences, found)


def compose_certificates(
    certificates: Sequence[Mapping[str, Any]], disjoint: bool = False, labels: Sequence[str] = ()
) -> Certificate:
    """Return the joint certificate of several runs.

    *Formal guarantee.* Sequential: each user may be in all of the runs, with independent noise; all releases are
    composed adaptively by one joint curve, each as often as a user takes part in it, including attempts. Disjoint: each
    user is in one run only, so the worst run counts (McSherry 2009, Theorem 4). The claim is the sum, or the maximum,
    of the runs' claims; the proved epsilon is usually smaller.

    labels: names of the certificates in messages.
    Raises LedgerError unless each stands, and all have one trust model, adjacency and unit.
    """
    if not certificates:
        raise LedgerError("certificates must be given, got none; name at least one")
    runs = []
    for label, each in zip(labels or [f"certificate {i}" for i in range(len(certificates))], certificates, strict=True):
        try:
            verified = verify(each)
        except LedgerError as error:
            raise LedgerError(f"{label}: {error}") from None
        if verified.certificate is None or not verified.stands:
            rule = f"{label} must stand to be composed"
            raise LedgerError(f"{rule}, got one where {verified.differences[0]}; see `dprl verify`")
        runs.append(verified.certificate)
        for key in ("trust_model", "adjacency", "unit"):
            if each[key] != certificates[0][key]:
                wrong = f"{key} must be the same in all of them, got {certificates[0][key]!r} and {each[key]!r}"
                raise LedgerError(f"{wrong}; state these guarantees side by side")
    releases, groups = _joined(runs, disjoint)
    users = [run.users for run in runs]
    n_users = sum(users) if disjoint else max(users)
    # The threat model of all runs: every channel that one of them covers or leaves open, also beyond its query's.
    models = [run.design.threat_model for run in runs]
    left_open = chain(*(each[_OPEN] for each in certificates), *(each.excluded for each in models))
    threats = replace(
        models[0],
        observer="; ".join(dict.fromkeys(each.observer for each in models)),
        covered=tuple(dict.fromkeys(chain(*(each.covered for each in models)))),
        excluded=tuple(name for name in dict.fromkeys(left_open) if name not in OPEN_CHANNELS),
        attained_by="no pair of users that is known" if len(models) > 1 else models[0].attained_by,
    )
    design: NoiseDesign[Any] = NoiseDesign(runs[0].trust_model, releases, threats, max(1, n_users), 1, groups)
    claims = [run.design.claimed for run in runs if run.design.claimed is not None]
    if len(claims) == len(runs):
        total, kind = (max, "largest") if disjoint else (math.fsum, "sum")
        try:
            both = replace(claims[0], epsilon=total(c.epsilon for c in claims), delta=total(c.delta for c in claims))
        except ValueError as error:
            raise LedgerError(f"the claims together must be a guarantee: {error}") from None
        source = f"the {kind} of the claims of {len(runs)} certificates"
        design = replace(design, claimed=both, source=source, calibration=_COMPOSED)
    names = " + ".join(dict.fromkeys(run.algorithm for run in runs))
    parts = [{key: value for key, value in each.items() if key not in NOT_ITS_OWN} for each in certificates]
    composition = {"kind": _KINDS[disjoint], "of": parts}
    found = certify(Ledger(design, charges=[n_users]), names, composition=composition)
    claimed = design.claimed
    if claimed is None or found.verdict == "holds" or any(run.verdict != "holds" for run in runs):
        return found
    # Basic composition: claims that hold add up to one that holds; the joint curve is rounded up to a grid.
    method = f"{found.method}; at the claimed delta, basic composition of the claims"
    return replace(found, verdict="holds", proved_epsilon=claimed.epsilon, factor=1.0, method=method)


def _recomputed(stated: Mapping[str, Any]) -> Certificate:
    if stated["composition"] is not None:
        kind, parts = stated["composition"]["kind"], stated["composition"]["of"]
        if kind not in _KINDS:
            raise LedgerError(f"composition.kind must be one of {', '.join(_KINDS)}, got {kind!r}")
        return compose_certificates(parts, kind == "disjoint")
    if not isinstance(stated["algorithm"], str):
        raise LedgerError(f"algorithm must be a name, got {stated['algorithm']!r}; restore the file")
    design, simulation = design_of(stated), "blocks" if stated["simulation"] == "blocks" else "users"
    if simulation == "blocks" and not design.draws_blocks:
        raise LedgerError("simulation must be users for noise that is not seeded or sums of an unknown law, got blocks")
    users, again, attempts = (_whole(stated[key]) for key in ("users", "users_asked_again", "attempts"))
    if not (1 <= attempts <= _MOST_ATTEMPTS and 0 <= again <= users and (again > 0) == (attempts > 1)):
        raise LedgerError(f"users_asked_again must be above 0 with several attempts only, got {again} in {attempts}")
    earlier = [again, *[1] * (attempts - 2)] if attempts > 1 else []
    return certify(Ledger(design, charges=[*earlier, users]), stated["algorithm"], simulation)


def design_of(stated: Mapping[str, Any]) -> NoiseDesign[Any]:
    """Return the design of noise that the request of a certificate describes. Raises ValueError or LedgerError."""
    request = stated["request"]
    if request is None:
        raise LedgerError("request must be there, got none; this noise was made by hand, so nobody can make it again")
    kind, of = _DATA.get(request["kind"], (None, ""))
    if kind is None:
        raise LedgerError(f"request.kind must be one of {', '.join(_DATA)}, got {request['kind']!r}; correct it")
    settings = _read(PRIVACY_SETTINGS[of], request["settings"], "request.settings")
    data, noise = _read(kind, request["data"], "request.data"), _read(NoiseConfig, request["noise"], "request.noise")
    users = _whole(request["users"])
    if users > _MOST_USERS:
        raise LedgerError(f"request.users must be at most {_MOST_USERS}, got {users}; no run has so many")
    found: NoiseDesign[Any] = settings.design(data, users, noise, _number(request["growth"]))
    return found


def _read(kind: Any, found: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401 - JSON
    """Return the dataclass that a mapping in JSON describes, with every type checked. Raises ValueError."""
    try:
        return TypeAdapter(kind).validate_json(json.dumps(found), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, (path, *first["loc"])))
        raise ValueError(f"{place}: {first['msg']}, got {first['input']!r}") from None


def _whole(value: Any) -> int:  # noqa: ANN401 - JSON
    """Return an integer; a bool, which is one in Python, becomes 0 or 1. Raises TypeError for anything else."""
    return int(operator.index(value))


def _leaves(value: object, path: Path = ()) -> Iterator[tuple[Path, Leaf]]:
    """Yield numbers and texts by their paths."""
    if isinstance(value, Mapping):
        if not value:
            yield path, "{}"
        for key, each in value.items():
            yield from _leaves(each, (*path, str(key)))
    elif isinstance(value, list | tuple):
        yield (*path, _LENGTH), len(value)
        for i, each in enumerate(value):
            yield from _leaves(each, (*path, i))
    else:
        yield path, value  # type: ignore[misc]


def _differences(stated: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[Difference]:
    keys = [key for key in expected if key not in ("version", "checksum")]
    new = [key for key in stated if key not in (*expected, *NOT_ITS_OWN)]
    given = {key: stated[key] for key in (*keys, *new)}
    # A run may exclude more channels, as the choice among its trials.
    if not isinstance(stated[_OPEN], list) or not all(isinstance(name, str) for name in stated[_OPEN]):
        yield Difference(_OPEN, str(stated[_OPEN]), "a list of names")
    else:
        missing = [name for name in expected[_OPEN] if name not in stated[_OPEN]]
        yield from (Difference(_OPEN, "a list without it", name) for name in missing)
    given[_OPEN] = expected[_OPEN]
    one, other = dict(_leaves(given)), dict(_leaves({key: expected[key] for key in keys}))
    for path in dict.fromkeys([*other, *one]):
        # Only proofs are computed from tiny numbers; a claim of delta = 1e-15 is not one of 0.
        zero = _ZERO if path[0] == "proved" else 0.0
        given_one, expected_one = one.get(path), other.get(path)
        same = path in one and path in other and type(given_one) is type(expected_one) and given_one == expected_one
        if not same and {type(given_one), type(expected_one)} <= {int, float}:
            same = math.isclose(given_one, expected_one, rel_tol=_TOLERANCE, abs_tol=zero)  # type: ignore[arg-type]
        if not same:  # at a path such as noise[0].scale
            parts = (".length" if key == _LENGTH else f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
            yield Difference("".join(parts).lstrip("."), given_one, expected_one)


def _refuted_by_audit(stated: Mapping[str, Any], found: Certificate) -> Iterator[Difference]:
    """Yield the results of an attached audit that contradict the proof: more loss, or a refuted claim that holds."""
    audit, most = stated["audit"] or {}, found.pure_epsilon
    if audit.get("contradicts_proof"):
        yield Difference("audit.contradicts_proof", True, False)
    if "epsilon_lb" in audit and not _number(audit["epsilon_lb"]) <= most * (1.0 + _TOLERANCE):
        yield Difference("audit.epsilon_lb", audit["epsilon_lb"], most)
    claim, refuted = audit.get("probe_claim", {}), audit.get("verdict") == "refuted"
    for field, bound in (("epsilon_lb", "epsilon"), ("delta_lb", "delta")):
        refuted |= bound in claim and _number(audit[field]) > _number(claim[bound]) * (1.0 + _TOLERANCE)
    if refuted and found.verdict == "holds":
        yield Difference("audit.verdict", "refuted", "not refuted")


def _joined(runs: Sequence[Certificate], disjoint: bool) -> tuple[tuple[Release, ...], tuple[tuple[int, ...], ...]]:
    """Return the releases of all runs, and the groups in which one user takes part."""
    one = len(runs) == 1  # the worst neighbours of two runs may differ, so their bound need not be attained
    releases: list[Release] = []
    groups: list[list[tuple[int, ...]]] = []
    for run in runs:
        first, everything = len(releases), tuple(range(len(run.releases)))
        groups.append([tuple(first + number for number in group) for group in run.design.groups or (everything,)])
        repeats = run.design.submissions * run.attempts
        releases += [
            replace(each, times=each.times * repeats, attainable=each.attainable and one) for each in run.releases
        ]
    number = sum(map(len, groups)) if disjoint else math.prod(map(len, groups))
    if number > _MOST_GROUPS:
        raise LedgerError(f"groups of disjoint users must be at most {_MOST_GROUPS}, got {number}; compose fewer")
    found = chain(*groups) if disjoint else (tuple(chain(*each)) for each in product(*groups))
    together = tuple(found)
    return tuple(releases), together if len(together) > 1 else ()
