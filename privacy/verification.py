"""Verification and composition of certificates, from their own fields alone."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any

from dprl import __version__
from dprl.privacy.base import Guarantee, LedgerError
from dprl.privacy.certificate import OPEN_CHANNELS, SCHEMA, Certificate, PrivacyRequest, certify
from dprl.privacy.certificate_json import checksum, ledger_from_json
from dprl.privacy.ledger import Ledger, LedgerSpec, ReleaseEvent
from dprl.privacy.threat_models import ThreatModel

_REFUSED = (ValueError, LedgerError, ArithmeticError)
"""Raised for fields that no certificate has."""
_DAMAGE = (KeyError, TypeError, AttributeError, IndexError)
_TOLERANCE, _ZERO = 1e-9, 1e-15
"""Numbers differ by less from one processor to another, relative and absolute."""
_EPISODES, _LEAST = "episodes_per_user.bounds[", "trade_off.false_negative_rate["
_BOUNDS = ("proved.", "factor", "per_user.", "trade_off.detected", _LEAST, "renyi.divergence_at_order.", _EPISODES)
_FROM_CURVE = ("trade_off", "renyi", "episodes_per_user")
_LABELS = (".episodes", ".delta", ".length")
_WORDS = ("derivation", "proved.method", "renyi.absent", "episodes_per_user.joint")
"""Fields that another version may say otherwise of the same curve."""
_WORST = ("holds", "holds_approximately", "fails", "unbounded")
_MOST_GROUPS = 1000
_COMPOSED = "composed"

Leaf = float | str | bool | None


@dataclass(frozen=True)
class Difference:
    """A field that does not stand: its path, its stated value, and the value that the other fields give.

    The right checksum is not told, so `recomputed` is None for it.
    """

    field: str
    stated: Leaf
    recomputed: Leaf

    def __str__(self) -> str:
        if self.field == "checksum":
            return "checksum does not match: the file was edited"
        return f"{self.field} is {self.stated!r}, recomputed {self.recomputed!r}"


@dataclass(frozen=True)
class Verification:
    """Result of recomputing a certificate.

    differences: fields that do not stand; certificate: the recomputed one, None where no such noise exists.
    """

    differences: tuple[Difference, ...]
    certificate: Certificate | None

    @property
    def stands(self) -> bool:
        """Whether every recomputed field is the stated one."""
        return not self.differences


def verify(stated: Mapping[str, Any]) -> Verification:
    """Compute a certificate again from its own releases, sensitivities, neighbours and charges.

    Everything that follows from them must agree: the proof, verdict and factor, scales, names and arithmetic of the
    noise, and the channels that the noise leaves open. Words, settings and sizes of errors are taken as they are, and
    a checksum tells whether one was changed. A certificate of another version may prove less: its bounds still hold.

    Raises LedgerError for a damaged certificate, and for one of an earlier schema.
    """
    _require_schema(stated)
    try:
        found = replace(_recomputed(stated), audit=stated["audit"])
        expected = json.loads(json.dumps(found.to_dict()))
        differences = tuple(_differences(stated, expected))
        if stated["checksum"] != checksum(stated):
            differences += (Difference("checksum", stated["checksum"], None),)
    except _REFUSED as error:
        return Verification((Difference("noise", None, " ".join(str(error).split())),), None)
    except _DAMAGE as error:
        raise _damaged(error) from error
    if (stated["audit"] or {}).get("contradicts_proof"):
        differences += (Difference("audit.contradicts_proof", True, False),)
    return Verification(differences, found)


def compose_certificates(certificates: Sequence[Mapping[str, Any]], disjoint: bool = False) -> Certificate:
    """Return the joint certificate of several runs.

    *Formal guarantee.* Sequential: each user may be in all of the runs, with independent noise; all releases are
    composed adaptively by one joint curve, each as often as a user takes part in it, attempts included. Disjoint: each
    user is in one run only, so the worst run counts (McSherry 2009, Theorem 4). The claim is the sum, or the maximum,
    of the runs' claims; the proof is usually below it.

    Raises LedgerError unless each stands, and all have one trust model, adjacency and unit.
    """
    if not certificates:
        raise LedgerError("certificates must be given, got none; name at least one")
    for each in certificates:
        verified = verify(each)
        if not verified.stands:
            raise LedgerError(f"a composed certificate must stand, got one where {verified.differences[0]}")
        for key in ("trust_model", "adjacency", "unit"):
            if each[key] != certificates[0][key]:
                raise LedgerError(
                    f"{key} must be the same in all of them, got {certificates[0][key]!r} and {each[key]!r}; state "
                    "these guarantees side by side"
                )
    ledgers = [_ledger(each) for each in certificates]
    releases, groups = _joined([ledger.spec for ledger in ledgers], [_times(ledger) for ledger in ledgers], disjoint)
    users = [ledger.users_charged for ledger in ledgers]
    n_users = sum(users) if disjoint else max(users)
    spec = LedgerSpec(
        certificates[0]["trust_model"], releases, _threats_of_all(certificates), max(1, n_users), 1, groups
    )
    ledger = Ledger(spec)
    if n_users:
        ledger.charge(1, n_users)
    claims = [_guarantee(each, each["claimed"]) for each in certificates]
    try:
        request = _claimed_together(claims, disjoint)
    except ValueError as error:
        raise LedgerError(f"the claims together must be a guarantee: {error}") from None
    names = " + ".join(dict.fromkeys(each["algorithm"] for each in certificates))
    parts = [{key: each[key] for key in ("algorithm", "claimed", "users", "checksum")} for each in certificates]
    return certify(ledger, request, names, {"composition": {"kind": _kind(disjoint), "of": parts}})


def _require_schema(stated: Mapping[str, Any]) -> None:
    if not isinstance(stated, Mapping):
        raise LedgerError(f"a certificate must be a mapping, got {type(stated).__name__}; name certificate.json")
    schema = stated.get("schema")
    if schema == SCHEMA:
        return
    if isinstance(schema, str) and schema.startswith(SCHEMA.partition("/")[0]):
        raise LedgerError(
            f"schema must be {SCHEMA}, got {schema}, which lacks the fields to recompute it; run `dprl run` on the "
            "experiment.yaml beside it for one that has them"
        )
    raise LedgerError(f"schema must be {SCHEMA}, got {schema!r}; name a certificate.json of dprl")


def _damaged(error: Exception) -> LedgerError:
    lost = f"no {error}" if isinstance(error, KeyError) else " ".join(str(error).split())
    return LedgerError(f"a certificate must have all fields of {SCHEMA}, got {lost}; restore the file")


def _ledger(stated: Mapping[str, Any]) -> Ledger:
    return ledger_from_json(stated, OPEN_CHANNELS)


def _guarantee(stated: Mapping[str, Any], found: Mapping[str, Any]) -> Guarantee | None:
    if found["epsilon"] is None:
        return None
    return Guarantee(stated["trust_model"], found["epsilon"], found["delta"], stated["adjacency"])


def _recomputed(stated: Mapping[str, Any]) -> Certificate:
    requested, claimed = (_guarantee(stated, stated[key]) for key in ("requested", "claimed"))
    says = stated["claimed"]
    request = PrivacyRequest(requested, claimed, says["calibration"], says["source"], stated["choice"])
    return certify(_ledger(stated), request, stated["algorithm"], stated)


def _leaves(value: object, path: str = "") -> Iterator[tuple[str, Leaf]]:
    """Yield numbers and words by their paths; those of a list of channels in one order."""
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _leaves(each, f"{path}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        yield f"{path}.length", len(value)
        for i, each in enumerate(sorted(value) if path == "excluded_channels" else value):
            yield from _leaves(each, f"{path}[{i}]")
    else:
        yield path, value  # type: ignore[misc]


def _differences(stated: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[Difference]:
    ours = stated["version"] == __version__
    given = dict(_leaves({key: stated[key] for key in expected if ours or key in stated}))
    found = dict(_leaves({key: expected[key] for key in expected if ours or key in stated}))
    for path in [*found, *(path for path in given if path not in found)]:
        one, other = given.get(path), found.get(path)
        if path in ("version", "checksum") or (path in given and path in found and _same(one, other)):
            continue
        if ours or not _still_holds(path, one, other):
            yield Difference(path, one, other)


def _same(one: Leaf, other: Leaf) -> bool:
    if type(one) in (int, float) and type(other) in (int, float):
        return math.isclose(one, other, rel_tol=_TOLERANCE, abs_tol=_ZERO)  # type: ignore[arg-type]
    return type(one) is type(other) and one == other


def _still_holds(path: str, stated: Leaf, found: Leaf) -> bool:
    """Whether a stated bound of another version follows from the one that this version proves."""
    if path.startswith(_WORDS) or (path, stated) == ("proved.tightness", "upper"):
        return True
    if path.startswith(_FROM_CURVE) and (stated is None or (path.startswith(_EPISODES) and path.endswith(".by"))):
        return True
    if path == "verdict":
        return stated in _WORST and found in _WORST and _WORST.index(str(stated)) >= _WORST.index(str(found))
    if not path.startswith(_BOUNDS) or (path.startswith(_EPISODES) and path.endswith(_LABELS)):
        return False
    try:
        one, other = float(stated), float(found)  # type: ignore[arg-type]
        return one <= other if path.startswith(_LEAST) else one >= other
    except (TypeError, ValueError):
        return False


def _kind(disjoint: bool) -> str:
    return "disjoint" if disjoint else "sequential"


def _times(ledger: Ledger) -> int:
    """Return how often one user takes part in each release, in all attempts."""
    return ledger.spec.submissions * ledger.attempts


def _joined(
    specs: Sequence[LedgerSpec], times: Sequence[int], disjoint: bool
) -> tuple[tuple[ReleaseEvent, ...], tuple[tuple[int, ...], ...]]:
    """Return the releases of all runs, and the groups of them that one user takes part in.

    Worst neighbours of two runs may differ, so no bound on several is known to be attained.
    """
    one = len(specs) == 1
    releases: list[ReleaseEvent] = []
    groups: list[list[tuple[int, ...]]] = []
    for spec, repeats in zip(specs, times, strict=True):
        first, everything = len(releases), tuple(range(len(spec.releases)))
        groups.append([tuple(first + number for number in group) for group in spec.groups or (everything,)])
        releases += [
            replace(each, times=each.times * repeats, attainable=each.attainable and one) for each in spec.releases
        ]
    number = sum(map(len, groups)) if disjoint else math.prod(map(len, groups))
    if number > _MOST_GROUPS:
        raise LedgerError(f"groups of disjoint users must be at most {_MOST_GROUPS}, got {number}; compose fewer")
    found = chain(*groups) if disjoint else (tuple(chain(*each)) for each in product(*groups))
    together = tuple(found)
    return tuple(releases), together if len(together) > 1 else ()


def _threats_of_all(certificates: Sequence[Mapping[str, Any]]) -> ThreatModel:
    """Return the threat model of all runs: every channel that one of them covers or leaves open."""
    first, several = certificates[0], len(certificates) > 1
    covered, excluded = (
        tuple(dict.fromkeys(chain(*(each[key] for each in certificates))))
        for key in ("covered_channels", "excluded_channels")
    )
    return ThreatModel(
        unit=first["unit"],
        adjacency=first["adjacency"],
        observer="; ".join(dict.fromkeys(each["observer"] for each in certificates)),
        covered=covered,
        excluded=tuple(channel for channel in excluded if channel not in OPEN_CHANNELS),
        attained_by="no pair of users that is known" if several else first["attained_by"],
    )


def _claimed_together(claims: Sequence[Guarantee | None], disjoint: bool) -> PrivacyRequest:
    """Return the claims' sum, or their maximum; none where one run claims nothing."""
    known = [claim for claim in claims if claim is not None]
    if len(known) < len(claims):
        return PrivacyRequest(None, None, "none", "nothing is claimed")
    total = max if disjoint else math.fsum
    claimed = replace(known[0], epsilon=total(c.epsilon for c in known), delta=total(c.delta for c in known))
    source = f"the {'largest' if disjoint else 'sum'} of the claims of {len(claims)} certificates"
    return PrivacyRequest(None, claimed, _COMPOSED, source)
