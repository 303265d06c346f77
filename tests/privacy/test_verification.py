"""Certificates are verified from their own fields: every kind of noise is rebuilt, and changed numbers are found.

tests/golden/test_certificates.py verifies the certificates of all kinds and of every config.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any
from unittest.mock import Mock

import pytest

from dprl import __version__
from dprl.privacy import CountPrivacy, GradientLayout, GradientPrivacy, LedgerError, Streams
from dprl.privacy.base import Sensitivity
from dprl.privacy.certificate import certify, sealed
from dprl.privacy.ledger import Ledger
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.vectors import ClippedLaplace
from dprl.privacy.verification import verify
from tests.privacy.conftest import KINDS, _families, _privatizer
from tests.privacy.gradients.test_privatizers import CONFIGS as GRADIENTS
from tests.privacy.gradients.test_privatizers import built as of_gradients
from tests.privacy.linear_statistics.test_privatizers import CONFIGS as STATISTICS
from tests.privacy.linear_statistics.test_privatizers import built as of_statistics

PRINTED = (CountPrivacy("jdp", 1.0, calibration="printed"), CountPrivacy("ldp", 1.0, calibration="printed"))
EVERY: dict[str, Callable[[], Any]] = {
    **{f"counts {kind}": partial(_privatizer, kind) for kind in KINDS},
    **{f"gradients {name}": partial(of_gradients, name) for name in GRADIENTS},
    **{f"statistics {name}": partial(of_statistics, name) for name in STATISTICS},
    **{f"counts {each.model}, printed": partial(each.build, _families(4), 21, Streams(0, "x")) for each in PRINTED},
}
Path = tuple[str | int, ...]
CHARGES = {"users", "attempts", "users_asked_again"}
FACTS = {"indicator", "stage_scales", "reward_clip", "reward_dimension", "by_bound", "draws", "paper", "window"}
"""Numbers of a request that need not affect the certificate."""
NOISELESS = {"counts none", "gradients none", "statistics none", "statistics none, clipped"}


@cache
def text_of(kind: str) -> str:
    return json.dumps(EVERY[kind]().planned_certificate("x").to_dict())


def written(kind: str = "counts jdp, buffered") -> dict[str, Any]:
    """Return a certificate as it is read from a file."""
    found: dict[str, Any] = json.loads(text_of(kind))
    return found


def numbers(value: Any, path: Path = ()) -> Iterator[tuple[Path, float]]:
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from numbers(each, (*path, key))
    elif isinstance(value, int | float):
        yield path, value


def changed(certificate: dict[str, Any], path: Path, value: Any, *, seal: bool = False) -> dict[str, Any]:
    """Return the certificate with one field changed, and a new checksum if `seal`."""
    found = copy.deepcopy(certificate)
    place: Any = found
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return sealed(found) if seal else found


def found_in(certificate: dict[str, Any]) -> set[str]:
    """Return the fields that do not stand; 'damaged' if it cannot be read."""
    try:
        return {each.field for each in verify(certificate).differences}
    except LedgerError:
        return {"damaged"}


@pytest.mark.parametrize("kind", EVERY)
def test_every_query_is_rebuilt_from_its_fields(kind: str) -> None:
    design, found = EVERY[kind]().design, verify(written(kind)).certificate
    assert found is not None
    assert found.design == design
    assert found.design.terms == design.terms
    assert found.design.query == design.query


def role(certificate: dict[str, Any], path: Path) -> tuple[object, ...]:
    """Return what a number is in a certificate: its path with classes and mechanisms in place of indices."""
    place: Any = certificate
    found = []
    for key in path:
        named = isinstance(place, dict) and (place.get("class") or place.get("mechanism"))
        found.append((named or "", "" if isinstance(key, int) else key))
        place = place[key]
    return (certificate["trust_model"], certificate["request"]["kind"], *found)


@cache
def first_of_each_role() -> dict[str, list[Path]]:
    """Return the first and the last number of each role in every kind's certificate, of roles that are new there."""
    seen, chosen = set(), {}
    for kind in EVERY:
        paths = [path for path, _ in numbers(written(kind))]
        last = {role(written(kind), path): path for path in paths}
        first = {role(written(kind), path): path for path in reversed(paths)}
        new = [each for each in last if (kind in NOISELESS, each) not in seen]
        chosen[kind] = list(dict.fromkeys(path for each in new for path in (first[each], last[each])))
        seen |= {(kind in NOISELESS, each) for each in last}
    return chosen


@pytest.mark.parametrize("kind", EVERY)
def test_every_changed_number_is_found(kind: str) -> None:
    """This holds also with a new checksum, except for facts that determine nothing else in the certificate."""
    certificate = written(kind)
    assert verify(certificate).stands
    values = dict(numbers(certificate))
    for path in first_of_each_role()[kind]:
        value = values[path]
        new = not value if isinstance(value, bool) else value * 1.01 + (1 if isinstance(value, int) else 0.0) or 0.1
        new = int(new) if type(value) is int else new
        fact = path[0] in CHARGES or (path[0] == "request" and (path[-1] in FACTS or kind in NOISELESS))
        assert fact or found_in(changed(certificate, path, new, seal=True)), path


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        (("proved", "tightness"), "exact", {"proved.tightness"}),
        (("verdict",), "fails", {"verdict"}),
        (("trust_model",), "cdp", {"trust_model"}),
        (("trust_model",), "ldp", {"trust_model"}),
        (("adjacency",), "add or remove one user with all their episodes", {"adjacency"}),
        (("observer",), "nobody", {"observer"}),
        (("attained_by",), "nobody", {"attained_by"}),
        (("noise", 0, "mechanism"), "laplace", {"noise[0].mechanism"}),
        (("noise", 0, "parameters"), {}, {"noise[0].parameters.scale"}),
        (("noise", 0, "sensitivity", "l2"), 1e-3, {"noise[0].sensitivity.l2"}),
        (("noise", 0, "sensitivity"), None, {"noise[0].sensitivity.l2"}),
        (("noise", 0, "times"), 2, {"noise[0].times"}),
        (("noise",), [], {"noise.length"}),
        (("groups",), [[0], [1]], {"groups.length"}),
        (("request", "kind"), "Magic", {"facts"}),
        (("request", "kind"), "GradientLayout", {"facts"}),
        (("request", "settings", "counter"), "magic", {"facts"}),
        (("request", "settings", "counter"), "kary_tree", {"noise[0].scale"}),
        (("request", "settings", "epsilon"), 2.0, {"requested.epsilon", "noise[0].scale"}),
        (("request", "settings", "smallest_block"), 5, {"facts"}),
        (("request", "settings", "magic"), 5, {"request.settings.magic"}),
        (("request", "users"), 20, {"facts"}),
        (("request", "users"), 21.0, {"damaged"}),
        (("request", "growth"), -1.0, {"facts"}),
        (("request", "data", "n_steps"), 0.5, {"facts"}),
        (("request", "data", "n_steps"), -4, {"facts"}),
        (("request", "data", "n_steps"), 2, {"noise[0].sensitivity.l2", "noise[0].cells"}),
        (("request", "data", "n_steps"), True, {"facts"}),
        (("request", "data", "magic"), 1, {"request.data.magic"}),
        (("request",), None, {"facts"}),
        (("request", "noise", "entropy"), "os", {"noise[0].entropy"}),
        (("request", "noise", "entropy"), "magic", {"facts"}),
        (("submissions",), 2, {"submissions"}),
        (("most_users",), 22, {"most_users"}),
        (("users",), 22, {"facts"}),
        (("users",), -1, {"facts"}),
        (("users",), 20.5, {"damaged"}),
        (("audit",), "none", {"damaged"}),
        (("submissions",), True, {"submissions"}),
        (("users_asked_again",), 3, {"facts"}),
        (("attempts",), 0, {"facts"}),
        (("simulation",), "magic", {"simulation"}),
        (("composition",), {"kind": "sequential", "of": []}, {"facts"}),
        (("users",), "many", {"damaged"}),
        (("requested", "delta"), 1e-12, {"requested.delta"}),
        (("excluded_channels",), {}, {"excluded_channels"}),
        (("noise",), None, {"noise"}),
        (("noise", 0), 3, {"noise[0]"}),
    ],
)
def test_a_field_that_the_facts_do_not_imply_is_named(path: Path, value: Any, found: set[str]) -> None:
    assert found_in(changed(written(), path, value, seal=True)) >= found


def consistent(certificate: dict[str, Any]) -> dict[str, Any]:
    """Return the certificate with the verdict and the factor that follow from its claim, sealed."""
    found = verify(certificate).certificate
    assert found is not None
    factor = found.to_dict()["factor"]
    return changed(changed(certificate, ("factor",), factor), ("verdict",), found.verdict, seal=True)


@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind not in NOISELESS])
def test_the_origin_of_the_noise_is_checked(kind: str) -> None:
    honest, met = written(kind), "the requested guarantee, met by the certified "
    assert verify(honest).stands
    other = {"certified": "printed", "printed": "certified"}[honest["claimed"]["calibration"]]
    forged = [changed(honest, ("claimed", "calibration"), value, seal=True) for value in (other, "magic")]
    forged += [changed(honest, ("claimed", "source"), value, seal=True) for value in ("magic", f"{met}privacy")]
    if other == "certified":
        source = met + ("scale" if "counts" in kind else "noise")
        forged.append(changed(forged[0], ("claimed", "source"), source, seal=True))
        forged[-1] = changed(forged[-1], ("claimed", "delta"), honest["requested"]["delta"], seal=True)
    for part in ("requested", "claimed"):
        honest = changed(honest, (part, "epsilon"), honest[part]["epsilon"] * (10.0 if other == "certified" else 0.1))
    if "uniform" not in kind:  # [TH23] Theorem 5 has no epsilon
        forged.append(consistent(honest))
    assert all(map(found_in, forged)), [found_in(each) for each in forged]


@pytest.mark.parametrize("model", ["jdp", "ldp"])
def test_a_certificate_with_a_printed_error_bound_stands(model: str) -> None:
    run = CountPrivacy(model, 1.0, precision="printed").build(_families(4), 21, Streams(0, "x"))
    assert verify(json.loads(json.dumps(run.planned_certificate("x").to_dict()))).stands


@pytest.mark.parametrize("kind", sorted(NOISELESS))
def test_without_noise_nothing_can_be_claimed(kind: str) -> None:
    for part in ("requested", "claimed"):
        assert found_in(changed(written(kind), (part, "epsilon"), 1.0, seal=True))


@pytest.mark.parametrize("model", ["jdp", "ldp"])
def test_a_printed_claim_is_on_the_papers_noise_alone(model: str) -> None:
    honest = written(f"counts {model}, printed")
    delta = changed(changed(honest, ("requested", "delta"), 0.3), ("claimed", "delta"), 0.3, seal=True)
    assert found_in(delta) >= {"requested.delta", "claimed.delta"}
    assert "facts" in found_in(changed(honest, ("request", "settings", "families"), "one_hot", seal=True))


@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind.startswith("gradients ")])
def test_what_is_done_with_scores_is_checked(kind: str) -> None:
    assert "facts" in found_in(changed(written(kind), ("request", "settings", "release_scores"), "magic", seal=True))


def test_scores_that_are_read_are_named() -> None:
    """Raw scores are a channel that is not covered, so a certificate that leaves them out differs from its query."""
    made = GradientPrivacy("ldp", 1.0, release_scores="none").build(GradientLayout(2), 4, Streams(0, "scores"))
    certificate = json.loads(json.dumps(made.planned_certificate("x").to_dict()))
    found = found_in(changed(certificate, ("request", "settings", "release_scores"), "simulator", seal=True))
    assert any(field.startswith("excluded") for field in found)


def test_a_field_is_stated_once_and_no_other_field_is() -> None:
    """A key with a dot must not pass for the nested field that readers look up."""
    certificate = written()
    proved, noise = certificate["proved"], certificate["noise"][0]
    l2 = noise["sensitivity"]["l2"]
    small = {**proved["epsilon_at_delta"], "1e-06": 1e-3}
    dotted = {"epsilon_at_delta": small, "epsilon_at_delta.1e-06": proved["epsilon_at_delta"]["1e-06"]}
    bounds = certificate["episodes_per_user"]["bounds"]
    placed = {f"bounds[{i}].epsilon": each["epsilon"] for i, each in enumerate(bounds)}
    fewer = [{**each, "epsilon": 0.1} for each in bounds]
    forgeries: list[tuple[Path, Any, str]] = [
        (("proved",), {**proved, **dotted}, "proved.epsilon_at_delta.1e-06"),
        (("noise", 0), {**noise, "sensitivity": None, "sensitivity.l2": l2}, "noise[0].sensitivity"),
        (
            ("episodes_per_user",),
            {**certificate["episodes_per_user"], "bounds": fewer, **placed},
            "episodes_per_user.bounds[0].epsilon",
        ),
        (("noise",), {"length": 0}, "noise.length"),
        (("epsilon",), 1e-3, "epsilon"),
    ]
    for path, value, found in forgeries:
        assert found in found_in(changed(certificate, path, value, seal=True)), path
    for version in ("0.1.9", certificate["version"]):
        several = changed(certificate | {"version": version}, ("proved",), {**proved, **dotted}, seal=True)
        assert not verify(several).stands


def test_all_excluded_channels_must_be_named_and_no_other_covered() -> None:
    certificate = written()
    excluded, covered = certificate["excluded_channels"], certificate["covered_channels"]
    for name in excluded:
        kept = [each for each in excluded if each != name]
        assert found_in(changed(certificate, ("excluded_channels",), kept, seal=True)) == {"excluded_channels"}
    more = changed(certificate, ("covered_channels",), [*covered, "everything"], seal=True)
    assert found_in(more) >= {"covered_channels.length"}
    assert verify(changed(certificate, ("excluded_channels",), [*excluded, "the choice of a trial"], seal=True)).stands


def forged(kind: str, **changes: Any) -> dict[str, Any]:
    """Return a certificate computed for changed releases that states the query of the true ones."""
    run = EVERY[kind]()
    releases = tuple(replace(release, **changes) for release in run.design.releases)
    ledger = Ledger(replace(run.design, releases=releases), charges=[run.capacity])
    found: dict[str, Any] = json.loads(json.dumps(certify(ledger, "x").to_dict()))
    return found


@pytest.mark.parametrize(
    ("kind", "changes", "found"),
    [
        ("counts jdp", {"row": Sensitivity.of_cells(1)}, "noise[0].sensitivity.l1"),
        ("counts ldp", {"row": Sensitivity.of_cells(4)}, "noise[0].sensitivity.l1"),
        ("counts jdp, buffered", {"mechanism": Gaussian(1e6)}, "noise[0].scale"),
        ("counts ldp", {"attainable": False}, "noise[0].attainable"),
        ("counts ldp", {"entropy": "os"}, "noise[0].entropy"),
        ("gradients clipped_laplace", {"mechanism": ClippedLaplace(12, 0.01, Laplace(1.0))}, "noise[0].scale"),
    ],
)
def test_a_forgery_that_is_consistent_in_all_but_the_query_is_found(
    kind: str, changes: dict[str, Any], found: str
) -> None:
    """Proof, verdict and checksum are those of the forged releases."""
    assert found in found_in(forged(kind, **changes))


@pytest.mark.parametrize("version", [__version__, "0.1.9"])
@pytest.mark.parametrize("lost", sorted(set(written()) - {"schema", "version"}))
def test_a_lost_field_is_damage(lost: str, version: str) -> None:
    certificate = written() | {"version": version}
    del certificate[lost]
    with pytest.raises(LedgerError, match=rf"'{lost}'.*restore the file"):
        verify(certificate)


@pytest.mark.parametrize(
    ("certificate", "message"),
    [
        ([], "must be a mapping"),
        ({}, "got None; name a certificate.json"),
        ({"schema": "dprl.certificate/4", "version": "0.2.0"}, "got dprl.certificate/4 of dprl 0.2.0; run it again"),
    ],
)
def test_what_is_no_certificate_of_this_schema_is_refused(certificate: Any, message: str) -> None:
    with pytest.raises(LedgerError, match=message):
        verify(certificate)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("observer",), "nobody at all"),
        (("unit",), "all episodes of a person"),
        (("attained_by",), "nobody"),
        (("covered_channels",), ["everything", "timing"]),
        (("excluded_channels",), []),
        (("proved", "method"), "another one"),
        (("proved", "epsilon_at_delta", "1e-06"), 9.0),
        (("verdict",), "fails"),
        (("episodes_per_user",), None),
        (("error",), None),
        (("audited_by",), "a reviewer"),
        (("signature",), {}),
        (("proved", "note"), "for all users together"),
        (("request", "note"), "for all users together"),
    ],
    ids=lambda each: ".".join(each) if isinstance(each, tuple) else "",
)
def test_a_stated_version_excuses_no_change_and_no_new_field(path: Path, value: Any) -> None:
    certificate = written() | {"version": "0.1.9"}
    assert verify(sealed(certificate)).stands
    assert found_in(changed(certificate, path, value, seal=True))


def test_the_least_delta_is_not_none() -> None:
    made = CountPrivacy("jdp", 1.0, 1e-15, mechanism="gaussian").build(_families(4), 21, Streams(0, "x"))
    certificate = json.loads(json.dumps(made.planned_certificate("x").to_dict()))
    assert verify(certificate).stands
    for part in ("requested", "claimed"):
        certificate = changed(certificate, (part, "delta"), 0.0, seal=True)
        assert {"requested.delta"} <= found_in(certificate)


@pytest.mark.parametrize(
    ("path", "value"),
    [(("settings", "submissions"), 10**15), (("users",), 10**14), (("data", "window"), 0), (("data", "window"), -5)],
)
def test_requests_that_no_memory_holds_and_sizes_below_1_are_refused(path: Path, value: int) -> None:
    forged = changed(written("gradients clipped_laplace"), ("request", *path), value, seal=True)
    assert found_in(forged) == {"facts"}


def test_an_algorithm_is_a_name() -> None:
    values: list[Any] = [{}, [], 5, None]
    for value in values:
        assert found_in(changed(written(), ("algorithm",), value, seal=True)) == {"facts"}


def test_the_order_of_fields_does_not_matter() -> None:
    assert verify(json.loads(json.dumps(written(), sort_keys=True))).stands


@pytest.mark.parametrize(
    ("path", "value"),
    [(("settings", "smallest_block"), 0), (("growth",), -1.0), (("growth",), 10**400), (("users",), -1)],
)
def test_a_schedule_without_an_end_is_no_fact_of_a_run(path: Path, value: float) -> None:
    assert found_in(changed(written("counts shuffle"), ("request", *path), value, seal=True)) == {"facts"}


def test_a_horizon_that_no_memory_holds_is_refused_before_its_stages_are_listed() -> None:
    longer = changed(written("statistics laplace"), ("request", "data", "horizon"), 10**30, seal=True)
    assert found_in(longer) == {"facts"}


def test_facts_that_no_memory_holds_are_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dprl.privacy.verification.Ledger", Mock(side_effect=MemoryError("no 16 GiB left")))
    (found,) = verify(written()).differences
    assert str(found) == "no run has the stated facts: no 16 GiB left"


MEASURED = {"contradicts_proof": False, "epsilon_lb": 0.5, "delta_lb": 1e-6, "verdict": "not refuted"}
MEASURED |= {"probe_claim": {"epsilon": 0.5, "delta": 1e-6}}


@pytest.mark.parametrize(
    ("audit", "field"),
    [
        ({"contradicts_proof": True}, "audit.contradicts_proof"),
        ({"contradicts_proof": False, "epsilon_lb": 1.001, "verdict": "not refuted"}, "audit.epsilon_lb"),
        ({"contradicts_proof": False, "epsilon_lb": "nonsense", "verdict": "not refuted"}, "audit.epsilon_lb"),
        ({"contradicts_proof": False, "epsilon_lb": 0.9, "verdict": "refuted"}, "audit.verdict"),
        ({"contradicts_proof": False, "epsilon_lb": 1.0, "verdict": "not refuted"}, ""),
        ({**MEASURED, "epsilon_lb": 0.6}, "audit.verdict"),
        ({**MEASURED, "delta_lb": 1e-5}, "audit.verdict"),
        (MEASURED, ""),
        ({"verdict": "not sampled", "note": "the probe cannot be built"}, ""),
    ],
)
def test_a_certificate_that_its_audit_refutes_does_not_stand(audit: dict[str, Any], field: str) -> None:
    assert found_in(changed(written("counts jdp"), ("audit",), audit, seal=True)) == ({field} if field else set())


def test_a_refuted_claim_that_does_not_hold_is_no_contradiction() -> None:
    failing = written("statistics uniform, printed")
    assert (failing["verdict"], failing["claimed"]["epsilon"]) == ("fails", 1.0)
    audit = {"contradicts_proof": False, "epsilon_lb": 5.0, "verdict": "refuted"}
    assert verify(changed(failing, ("audit",), audit, seal=True)).stands
