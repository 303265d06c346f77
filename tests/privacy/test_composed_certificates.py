"""Certificates of several runs together: their proofs, their verification, and what cannot be composed."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from dprl.privacy import CountPrivacy, GradientLayout, GradientPrivacy, LedgerError, Streams
from dprl.privacy.accounting.closed_forms import GaussianDP
from dprl.privacy.base import Guarantee
from dprl.privacy.certificate import certify
from dprl.privacy.ledger import Ledger
from dprl.privacy.noise_design import NoiseDesign
from dprl.privacy.threat_models import THREAT_MODELS
from dprl.privacy.verification import compose_certificates, verify
from tests.privacy.conftest import HORIZON, N_USERS, _families, _privatizer
from tests.privacy.test_verification import changed, found_in, numbers, written


def jdp(epsilon: float = 1.0, delta: float = 1e-6) -> dict[str, Any]:
    settings = CountPrivacy("jdp", epsilon, delta, counter="buffered_toeplitz")
    privatizer = settings.build(_families(HORIZON), N_USERS, Streams(0, "compose"))
    found: dict[str, Any] = json.loads(json.dumps(privatizer.planned_certificate("x").to_dict()))
    return found


def test_two_gaussian_runs_prove_less_than_twice_their_epsilon() -> None:
    found = compose_certificates([jdp(), jdp()])
    assert found.design.claimed == Guarantee("jdp", 2.0, 2e-6)
    assert found.proved_epsilon == pytest.approx(1.4033, abs=1e-4)
    assert found.epsilon_at_delta[1e-6] == pytest.approx(1.4547, abs=1e-4)
    mu = math.sqrt(2.0) * 0.236704
    assert found.epsilon_at_delta[1e-5] == pytest.approx(GaussianDP(mu).epsilon(1e-5), rel=1e-4)
    assert (found.verdict, found.users) == ("holds", N_USERS)


def test_every_channel_that_a_run_leaves_open_stays_open_together() -> None:
    stated = jdp()
    stated = changed(stated, ("excluded_channels",), [*stated["excluded_channels"], "x"], seal=True)
    assert verify(stated).stands
    assert set(stated["excluded_channels"]) <= set(compose_certificates([stated]).to_dict()["excluded_channels"])


def test_of_disjoint_users_the_worst_run_counts() -> None:
    found = compose_certificates([jdp(), jdp(epsilon=3.0), jdp(epsilon=2.0, delta=1e-5)], disjoint=True)
    assert found.design.claimed == Guarantee("jdp", 3.0, 1e-5)
    assert found.epsilon_at_delta[1e-6] == pytest.approx(3.0, rel=1e-6)
    assert found.users == 3 * N_USERS


def test_a_release_in_no_group_is_not_left_out_of_the_proof() -> None:
    two = json.loads(json.dumps(compose_certificates([jdp(), jdp()]).to_dict()))
    assert "groups.length" in found_in(changed(two, ("groups",), [[0]], seal=True))


def test_a_forged_part_of_a_composition_is_found() -> None:
    both = json.loads(json.dumps(compose_certificates([jdp(), jdp()]).to_dict()))
    assert verify(both).stands
    alone = json.loads(json.dumps(compose_certificates([jdp()]).to_dict()))
    for key in ("composition", "request"):
        assert not verify(changed(both, (key,), alone[key] or jdp()[key], seal=True)).stands
    for path, value in numbers(both):
        if path[0] in ("noise", "groups", "users", "submissions", "claimed", "proved"):
            assert found_in(changed(both, path, value * 2 or 1, seal=True)), path
    part = changed(jdp(), ("noise", 0, "sensitivity", "l2"), 1e-3, seal=True)
    assert found_in(changed(both, ("composition", "of", 0), part, seal=True)) == {"facts"}
    assert "groups.length" in found_in(changed(both, ("composition", "kind"), "disjoint", seal=True))


def test_what_was_composed_stands_and_is_composed_again() -> None:
    two = compose_certificates([jdp(), jdp()]).to_dict()
    either = compose_certificates([two, jdp(epsilon=3.0)], disjoint=True).to_dict()
    all_of_them = compose_certificates([either, jdp()])
    for certificate in (two, either, all_of_them.to_dict()):
        assert verify(json.loads(json.dumps(certificate))).stands
    three = compose_certificates([jdp(), jdp(), jdp()])
    with_worst = compose_certificates([jdp(epsilon=3.0), jdp()])
    expected = max(each.epsilon_at_delta[1e-6] for each in (three, with_worst))
    assert all_of_them.epsilon_at_delta[1e-6] == pytest.approx(expected)


def test_one_certificate_composes_to_itself_with_all_its_attempts_and_submissions() -> None:
    settings = GradientPrivacy("ldp", 6.0, submissions=3)
    run = settings.build(GradientLayout(6), 15, Streams(0, "compose"))
    ledger = Ledger(run.design, charges=[4, 5])
    certificate = json.loads(json.dumps(certify(ledger, "x").to_dict()))
    assert verify(certificate).stands
    composed = compose_certificates([certificate])
    assert composed.pure_epsilon == pytest.approx(12.0)
    assert composed.tightness == "exact"
    assert composed.releases[0].times == 6
    assert compose_certificates([certificate, certificate]).tightness == "upper"


def test_without_noise_nothing_is_claimed_together() -> None:
    raw = written("counts none")
    found = compose_certificates([raw, raw])
    assert (found.verdict, found.design.claimed, found.factor) == ("unbounded", None, None)
    assert verify(json.loads(json.dumps(found.to_dict()))).stands


def test_what_cannot_be_composed_is_refused() -> None:
    ldp = (
        CountPrivacy("ldp", 1.0)
        .build(_families(HORIZON), N_USERS, Streams(0, "compose"))
        .planned_certificate("x")
        .to_dict()
    )
    with pytest.raises(LedgerError, match=r"trust_model must be the same .* side by side"):
        compose_certificates([jdp(), ldp])
    with pytest.raises(LedgerError, match="adjacency must be the same"):
        compose_certificates([ldp, written("gradients clipped_laplace")])
    with pytest.raises(LedgerError, match="certificate 0 must stand to be composed, got one where"):
        compose_certificates([changed(jdp(), ("users",), 3)])
    with pytest.raises(LedgerError, match="name at least one"):
        compose_certificates([])
    with pytest.raises(LedgerError, match="must be a guarantee"):
        compose_certificates([jdp(delta=0.9)] * 2)
    either = compose_certificates([jdp(), jdp(epsilon=2.0)], disjoint=True).to_dict()
    with pytest.raises(LedgerError, match="at most 1000, got 1024"):
        compose_certificates([either] * 10)


def test_claims_that_hold_add_up_to_one_that_holds() -> None:
    """The joint curve is rounded up to a grid, by more than the tolerance of a verdict."""
    runs = [GradientPrivacy("ldp", epsilon).build(GradientLayout(3), 9, Streams(0, "x")) for epsilon in (1.0, 0.2875)]
    parts = [json.loads(json.dumps(run.planned_certificate("x").to_dict())) for run in runs]
    found = compose_certificates(parts)
    assert found.verdict == "holds"
    assert found.proved_epsilon <= sum(each["claimed"]["epsilon"] for each in parts) * (1.0 + 1e-9)
    assert verify(json.loads(json.dumps(found.to_dict()))).stands


def test_a_ledger_of_charges_is_bounded_as_any() -> None:
    spec: NoiseDesign[Any] = NoiseDesign("jdp", _privatizer("jdp").design.releases, THREAT_MODELS["counts", "jdp"], 5)
    with pytest.raises(LedgerError, match="6 submissions of 5"):
        Ledger(spec, charges=[6])
