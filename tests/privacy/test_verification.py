"""Certificates stand on their own fields: every kind of noise is rebuilt from them, and a changed number is found.

tests/golden/test_certificates.py verifies the certificates of all kinds and of every config.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import pytest

from dprl.privacy import CentralPrivacy, LedgerError, LocalPrivacy, PrivacyRequest, Streams, certify
from dprl.privacy.accounting.curves import GaussianDP
from dprl.privacy.base import Guarantee
from dprl.privacy.certificate_json import release_from_json, release_in_json, sealed
from dprl.privacy.ledger import Charged, Ledger, LedgerSpec, ReleaseEvent
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.threat_models import THREAT_MODELS
from dprl.privacy.verification import compose_certificates, verify
from tests.privacy.conftest import HORIZON, KINDS, N_USERS, _families, _privatizer
from tests.privacy.gradients.test_privatizers import CONFIGS as GRADIENTS
from tests.privacy.gradients.test_privatizers import built as of_gradients
from tests.privacy.linear_statistics.test_privatizers import CONFIGS as STATISTICS
from tests.privacy.linear_statistics.test_privatizers import built as of_statistics
from tests.privacy.test_bits import built as of_bits

EVERY: dict[str, Callable[[], Any]] = {
    **{f"counts {kind}": partial(_privatizer, kind) for kind in KINDS},
    **{f"gradients {name}": partial(of_gradients, name) for name in GRADIENTS},
    **{f"statistics {name}": partial(of_statistics, name) for name in STATISTICS},
    **{f"bits {epsilon}": partial(of_bits, epsilon) for epsilon in (None, 0.1, 1.0)},
}
Path = tuple[str | int, ...]


@cache
def text_of(kind: str) -> str:
    return json.dumps(EVERY[kind]().planned_certificate("x").to_dict())


def written(kind: str = "counts jdp, normalised") -> dict[str, Any]:
    """Return a certificate as a file has it."""
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
def test_every_release_is_rebuilt_from_its_fields(kind: str) -> None:
    for release in EVERY[kind]().planned_certificate("x").releases:
        fields = json.loads(json.dumps(release_in_json(release)))
        assert release_from_json(fields) == release
        assert release_in_json(release_from_json(fields)) == fields


@pytest.mark.parametrize("kind", EVERY)
def test_every_changed_number_is_found(kind: str) -> None:
    certificate = written(kind)
    assert verify(certificate).stands
    for path, value in numbers(certificate):
        new = not value if isinstance(value, bool) else value * 1.01 + (1 if isinstance(value, int) else 0.0) or 0.1
        assert found_in(changed(certificate, path, int(new) if type(value) is int else new)), path


@pytest.mark.parametrize("factor", [0.9, 1.1])
@pytest.mark.parametrize("kind", EVERY)
def test_other_noise_or_another_proof_is_found_also_with_a_new_checksum(kind: str, factor: float) -> None:
    certificate = written(kind)
    scales = [("noise", i, "scale") for i, noise in enumerate(certificate["noise"]) if noise["scale"]]
    laws = [
        ("noise", i, "parameters", name)
        for i, noise in enumerate(certificate["noise"])
        for name in noise["parameters"]
        if name.rpartition(".")[2] in {"scale", "epsilon"}
    ]
    proved = [path for path, value in numbers(certificate["proved"], ("proved",)) if 0.0 < value < math.inf]
    for path in [*scales, *laws, *proved]:
        place: Any = certificate
        for key in path:
            place = place[key]
        assert found_in(changed(certificate, path, place * factor, seal=True)), path


@pytest.mark.parametrize(
    ("path", "value", "found"),
    [
        (("proved", "tightness"), "exact", {"proved.tightness"}),
        (("verdict",), "fails", {"verdict"}),
        (("trust_model",), "cdp", {"noise"}),
        (("adjacency",), "add or remove one user with all their episodes", {"noise"}),
        (("noise", 0, "mechanism"), "laplace", {"factor", "proved.method"}),
        (("noise", 0, "mechanism"), "magic", {"noise"}),
        (("noise", 0, "parameters"), {}, {"noise"}),
        (("noise", 0, "parameters", "sigma"), 1.0, {"noise"}),
        (("noise", 0, "sensitivity", "l2"), 1e-3, {"noise"}),
        (("noise", 0, "sensitivity"), None, {"noise"}),
        (("noise",), [], {"noise"}),
        (("groups",), [[0, 7]], {"noise"}),
        (("users_asked_again",), 3, {"noise"}),
        (("attempts",), 0, {"noise"}),
        (("users",), "many", {"damaged"}),
        (("noise",), None, {"damaged"}),
        (("noise", 0), 3, {"damaged"}),
    ],
)
def test_a_field_that_no_such_noise_has_is_named(path: Path, value: Any, found: set[str]) -> None:
    assert found_in(changed(written(), path, value, seal=True)) >= found


def test_channels_that_the_noise_leaves_open_must_be_named() -> None:
    certificate = written()
    kept = [name for name in certificate["excluded_channels"] if not name.startswith("the random seed")]
    assert "excluded_channels.length" in found_in(changed(certificate, ("excluded_channels",), kept, seal=True))


@pytest.mark.parametrize("lost", sorted(set(written()) - {"schema", "version"}))
def test_a_lost_field_is_damage(lost: str) -> None:
    certificate = written()
    del certificate[lost]
    with pytest.raises(LedgerError, match=rf"'{lost}'.*restore the file"):
        verify(certificate)


@pytest.mark.parametrize(
    ("certificate", "message"),
    [
        ([], "must be a mapping"),
        ({}, "got None; name a certificate.json"),
        ({"schema": "dprl.certificate/2"}, "got dprl.certificate/2, which lacks the fields to recompute it; run `dprl"),
    ],
)
def test_what_is_no_certificate_of_this_schema_is_refused(certificate: Any, message: str) -> None:
    with pytest.raises(LedgerError, match=message):
        verify(certificate)


def test_a_looser_proof_of_another_version_still_holds_and_a_tighter_one_does_not() -> None:
    certificate = written() | {"version": "0.1.9"}
    at = ("proved", "epsilon_at_delta", "1e-06")
    for factor, stands in ((1.0, True), (1.5, True), (0.9, False)):
        assert (
            verify(
                changed(certificate, at, factor * certificate["proved"]["epsilon_at_delta"]["1e-06"], seal=True)
            ).stands
            is stands
        )
    assert verify(changed(certificate, ("proved", "method"), "another one", seal=True)).stands
    assert verify(changed(certificate, ("verdict",), "fails", seal=True)).stands
    assert not verify(changed(certificate, ("noise", 0, "scale"), 99.0, seal=True)).stands


@pytest.mark.parametrize(
    ("path", "factor"),
    [
        (("trade_off", "detected_at_5_percent"), 1.1),
        (("trade_off", "false_negative_rate", 0), 0.9),
        (("renyi", "divergence_at_order", "2"), 1.1),
        (("episodes_per_user", "bounds", 0, "epsilon"), 1.1),
    ],
)
def test_what_follows_from_the_curve_of_another_version_may_prove_less_only(path: Path, factor: float) -> None:
    certificate = written() | {"version": "0.1.9"}
    stated: Any = certificate
    for key in path:
        stated = stated[key]
    assert verify(changed(certificate, path, stated * factor, seal=True)).stands
    assert not verify(changed(certificate, path, stated / factor, seal=True)).stands


def test_a_certificate_that_its_audit_refutes_does_not_stand() -> None:
    audit = {"contradicts_proof": True}
    assert "audit.contradicts_proof" in found_in(changed(written(), ("audit",), audit, seal=True))


def jdp(epsilon: float = 1.0, delta: float = 1e-6) -> dict[str, Any]:
    settings = CentralPrivacy(epsilon, delta, counter="normalized_square_root")
    privatizer = settings.build(_families(HORIZON), N_USERS, Streams(0, "compose"))
    found: dict[str, Any] = json.loads(json.dumps(privatizer.planned_certificate("x").to_dict()))
    return found


def test_two_gaussian_runs_prove_less_than_twice_their_epsilon() -> None:
    found = compose_certificates([jdp(), jdp()])
    assert found.request.claimed == Guarantee("jdp", 2.0, 2e-6)
    assert found.proof.epsilon_at_claimed_delta == pytest.approx(1.4033, abs=1e-4)
    assert found.proof.epsilon_at_delta[1e-6] == pytest.approx(1.4547, abs=1e-4)
    mu = math.sqrt(2.0) * 0.236704
    assert found.proof.epsilon_at_delta[1e-5] == pytest.approx(GaussianDP(mu).epsilon(1e-5), rel=1e-4)
    assert (found.verdict, found.users) == ("holds", N_USERS)


def test_of_disjoint_users_the_worst_run_counts() -> None:
    found = compose_certificates([jdp(), jdp(epsilon=3.0), jdp(epsilon=2.0, delta=1e-5)], disjoint=True)
    assert found.request.claimed == Guarantee("jdp", 3.0, 1e-5)
    assert found.proof.epsilon_at_delta[1e-6] == pytest.approx(3.0, rel=1e-6)
    assert found.users == 3 * N_USERS


@pytest.mark.parametrize("kinds", [("counts ldp", "counts ldp, Gaussian"), ("counts jdp", "counts jdp, Gaussian tree")])
def test_disjoint_runs_of_two_laws_have_all_derived_fields(kinds: tuple[str, str]) -> None:
    runs = [written(kind) for kind in kinds]
    both = json.loads(json.dumps(compose_certificates(runs, disjoint=True).to_dict()))
    assert verify(both).stands
    for order, value in both["renyi"]["divergence_at_order"].items():
        assert value == pytest.approx(max(run["renyi"]["divergence_at_order"][order] for run in runs))
    detected = [run["trade_off"]["detected_at_5_percent"] for run in (both, *runs)]
    assert detected[0] >= max(detected[1:]) - 1e-9


def test_a_release_in_no_group_is_not_left_out_of_the_proof() -> None:
    two = json.loads(json.dumps(compose_certificates([jdp(), jdp()]).to_dict()))
    found = verify(changed(two, ("groups",), [[0]], seal=True))
    assert found.certificate is None
    assert "leave none out" in str(found.differences[0])


def test_what_was_composed_stands_and_is_composed_again() -> None:
    two = compose_certificates([jdp(), jdp()]).to_dict()
    either = compose_certificates([two, jdp(epsilon=3.0)], disjoint=True).to_dict()
    all_of_them = compose_certificates([either, jdp()])
    for certificate in (two, either, all_of_them.to_dict()):
        assert verify(json.loads(json.dumps(certificate))).stands
    three = compose_certificates([jdp(), jdp(), jdp()])
    with_worst = compose_certificates([jdp(epsilon=3.0), jdp()])
    expected = max(each.proof.epsilon_at_delta[1e-6] for each in (three, with_worst))
    assert all_of_them.proof.epsilon_at_delta[1e-6] == pytest.approx(expected)


def test_one_certificate_composes_to_itself_with_all_its_attempts_and_submissions() -> None:
    release = ReleaseEvent("x", Laplace(4.0), Sensitivity.of_cells(4), None, True, 1, 8, "os")
    spec = LedgerSpec("ldp", (release,), THREAT_MODELS["counts", "ldp"], 5, 3)
    claim = Guarantee("ldp", 6.0)
    ledger = Ledger.of_charges(spec, Charged((4,), 5))
    certificate = certify(ledger, PrivacyRequest(claim, claim, "certified", "a test"), "x").to_dict()
    assert verify(certificate).stands
    composed = compose_certificates([certificate])
    assert composed.proof.pure_epsilon == pytest.approx(6.0)
    assert composed.proof.tightness == "exact"
    assert composed.releases[0].times == 6
    assert compose_certificates([certificate, certificate]).proof.tightness == "upper"


def test_without_noise_nothing_is_claimed_together() -> None:
    raw = written("counts none")
    found = compose_certificates([raw, raw])
    assert (found.verdict, found.request.claimed, found.factor) == ("unbounded", None, None)
    assert verify(json.loads(json.dumps(found.to_dict()))).stands


def test_what_cannot_be_composed_is_refused() -> None:
    ldp = LocalPrivacy(1.0).build(_families(HORIZON), N_USERS, Streams(0, "compose")).planned_certificate("x").to_dict()
    with pytest.raises(LedgerError, match=r"trust_model must be the same .* side by side"):
        compose_certificates([jdp(), ldp])
    with pytest.raises(LedgerError, match="adjacency must be the same"):
        compose_certificates([ldp, written("gradients clipped_laplace")])
    with pytest.raises(LedgerError, match="must stand, got one where"):
        compose_certificates([changed(jdp(), ("users",), 3)])
    with pytest.raises(LedgerError, match="name at least one"):
        compose_certificates([])
    with pytest.raises(LedgerError, match="must be a guarantee"):
        compose_certificates([jdp(delta=0.9)] * 2)
    either = compose_certificates([jdp(), jdp(epsilon=2.0)], disjoint=True).to_dict()
    with pytest.raises(LedgerError, match="at most 1000, got 1024"):
        compose_certificates([either] * 10)


def test_a_ledger_of_charges_is_bounded_as_any() -> None:
    spec = LedgerSpec("jdp", _privatizer("jdp").ledger.spec.releases, THREAT_MODELS["counts", "jdp"], 5)
    with pytest.raises(LedgerError, match="6 submissions of 5"):
        Ledger.of_charges(spec, Charged((), 6))
