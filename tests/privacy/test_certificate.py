"""Certificates of one run and of several: claims against numbers, people with several episodes, missing proofs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from dprl.privacy import (
    Certificate,
    CountFamilies,
    CountPrivacy,
    GradientLayout,
    GradientPrivacy,
    LedgerError,
    NoiseConfig,
    NoiseDesign,
    Streams,
)
from dprl.privacy.accounting.closed_forms import GaussianDP
from dprl.privacy.base import Guarantee, Sensitivity, TrustModel, verdict
from dprl.privacy.certificate import certify
from dprl.privacy.ledger import Ledger
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.noise_design import Release
from dprl.privacy.threat_models import THREAT_MODELS
from dprl.privacy.verification import compose_certificates, verify
from tests.privacy.conftest import HORIZON, KINDS, N_USERS, _families, _privatizer
from tests.privacy.gradients.test_privatizers import CONFIGS as GRADIENTS
from tests.privacy.gradients.test_privatizers import built as of_gradients
from tests.privacy.gradients.test_rounds import privatizer as of_rounds
from tests.privacy.gradients.test_rounds import privatizer as of_running_sums
from tests.privacy.linear_statistics.test_privatizers import CONFIGS as STATISTICS
from tests.privacy.linear_statistics.test_privatizers import built as of_statistics
from tests.privacy.test_verification import changed, found_in, numbers, written

# Certificates: the papers' claims against numbers, and refusals wherever a proof is missing.

Families = Callable[..., CountFamilies]


def certified(settings: Any, families: CountFamilies, episodes: int) -> Certificate:
    privatizer = settings.build(families, episodes - 1, Streams(0, "certify"))
    found: Certificate = privatizer.planned_certificate("private_ucb_vi")
    return found


def test_printed_local_noise_fails_by_exactly_two(tabular_families: Families) -> None:
    found = certified(CountPrivacy("ldp", 1.0, calibration="printed"), tabular_families(5), 1000)
    assert found.proved_epsilon == pytest.approx(2.0)
    assert found.tightness == "exact"
    assert found.verdict == "fails"
    assert found.factor == pytest.approx(2.0)
    assert found.epsilon_at_delta[1e-6] == pytest.approx(1.4827, abs=5e-4)
    assert found.delta_at_requested_epsilon == pytest.approx(4.1417e-4, rel=5e-3)


def test_printed_central_noise_fails_as_pure_and_holds_approximately(tabular_families: Families) -> None:
    found = certified(CountPrivacy("jdp", 1.0, calibration="printed"), tabular_families(5), 1000)
    assert found.proved_epsilon == pytest.approx(2.895, abs=5e-4)
    assert found.epsilon_at_delta[1e-6] == pytest.approx(0.6836, abs=5e-4)
    assert found.verdict == "holds_approximately"
    assert found.factor == pytest.approx(2.895, abs=5e-4)


@pytest.mark.parametrize(
    ("episodes", "factor"), [(5, 3.728), (33, 3.432), (100, 3.040), (1000, 2.895), (100_000, 2.953)]
)
def test_factor_of_the_printed_tree(episodes: int, factor: float, tabular_families: Families) -> None:
    found = certified(CountPrivacy("jdp", 0.3, calibration="printed"), tabular_families(4), episodes)
    assert found.factor == pytest.approx(factor, abs=5e-4)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 7.0])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.parametrize("model", ["jdp", "ldp"])
def test_certified_noise_always_holds(model: str, delta: float, epsilon: float, tabular_families: Families) -> None:
    found = certified(CountPrivacy(model, epsilon, delta=delta), tabular_families(7), 5000)
    assert found.verdict == "holds"
    assert found.factor == pytest.approx(1.0, abs=1e-3)
    assert found.factor is not None
    assert found.factor <= 1 + 1e-9


@pytest.mark.parametrize(
    "settings", [CountPrivacy("none"), CountPrivacy("jdp", 1.0), CountPrivacy("ldp", 1.0, calibration="printed")]
)
def test_fields_are_the_published_ones_and_are_strict_json(settings: Any, tabular_families: Families) -> None:
    written = certified(settings, tabular_families(5), 1000).to_dict()
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert {
        "schema", "algorithm", "trust_model", "unit", "adjacency", "observer", "requested", "claimed", "proved",
        "noise", "users", "submissions",
        "covered_channels", "excluded_channels", "verdict", "factor", "audit",
    } <= set(written)  # fmt: skip
    assert written["adjacency"] == "replace one user's trajectory"
    assert set(written["claimed"]) == {"epsilon", "delta", "source", "calibration"}
    assert {"pure_epsilon", "tightness", "epsilon_at_delta", "delta_at_requested_epsilon", "method"} <= set(
        written["proved"]
    )
    assert set(written["proved"]["epsilon_at_delta"]) == {"1e-05", "1e-06"}
    for noise in written["noise"]:
        assert {"release", "mechanism", "scale", "parameters", "arithmetic", "cells", "entropy"} <= set(noise)
        assert noise["arithmetic"] == ("none" if noise["mechanism"] == "raw" else "float64-idealised")
        assert noise["entropy"] == "seeded"
        assert noise["parameters"] == ({} if noise["mechanism"] == "raw" else {"scale": noise["scale"]})
    assert (written["users"], written["submissions"]) == (999, 1)
    assert written["unit"] == "one user, who takes part in one episode"
    assert written["audit"] is None


def test_the_certificate_follows_the_noise_and_not_the_request(tabular_families: Families) -> None:
    asked = CountPrivacy("ldp", 1.0).build(tabular_families(5), 9, Streams(0, "a"))
    ran = CountPrivacy("ldp", 3.0).build(tabular_families(5), 9, Streams(0, "b"))
    mixed = replace(ran.design, requested=asked.design.requested, claimed=asked.design.claimed)
    found = certify(Ledger(mixed, charges=[9]), "private_ucb_vi")
    assert found.proved_epsilon == pytest.approx(3.0)
    assert found.verdict == "fails"


def certified_for(ledger: Ledger, guarantee: Guarantee) -> Certificate:
    """Return the certificate of a ledger's releases for a claim."""
    design = replace(ledger.design, requested=guarantee, claimed=guarantee)
    return certify(Ledger(design, charges=[1]), "x")


def test_a_claim_of_another_kind_cannot_be_held_against_a_ledger() -> None:
    ledger = ledger_of("jdp", release())
    for guarantee in (Guarantee("ldp", 1.0), Guarantee("jdp", 1.0, adjacency="remove one user")):
        with pytest.raises(LedgerError, match="must be of the ledger's trust model"):
            certified_for(ledger, guarantee)


@pytest.mark.parametrize(("epsilon", "delta"), [(0.0, 0.0), (-1.0, 0.0), (math.inf, 0.0), (1.0, 2.0), (1.0, math.nan)])
def test_numbers_that_are_no_guarantee_are_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(ValueError, match="nothing else is a guarantee"):
        Guarantee("ldp", epsilon, delta)


def ledger_of(model: TrustModel, *releases: Release, users: int = 1, submissions: int = 1) -> Ledger:
    return Ledger(NoiseDesign(model, releases, THREAT_MODELS["counts", model], users, submissions))


def release(**changes: Any) -> Release:
    values: dict[str, Any] = {
        "channel": "visits", "mechanism": Laplace(10.0), "row": Sensitivity.of_cells(4),
        "attainable": True, "cells": 8, "entropy": "seeded",
    }  # fmt: skip
    return Release(**values | changes)


def test_an_unknown_release_is_refused() -> None:
    with pytest.raises(LedgerError, match="cannot account for a release by 'gaussian'"):
        release(mechanism="gaussian")
    with pytest.raises(LedgerError, match="proves nothing"):
        ledger_of("jdp")


def test_a_single_cell_a_step_cannot_change_so_the_bound_is_not_attained(tabular_families: Families) -> None:
    for n_actions, tightness in ((1, "upper"), (2, "exact")):
        families = tabular_families(5, 1, n_actions)
        assert certified(CountPrivacy("ldp", 1.0, families="separate"), families, 1000).tightness == tightness


def test_one_raw_channel_makes_everything_unbounded() -> None:
    raw = release(channel="rewards", mechanism=None, row=None)
    ledger = ledger_of("ldp", release(), raw)
    assert math.isinf(ledger.curve.pure_epsilon)
    assert math.isinf(ledger.epsilon(1e-6))
    assert ledger.delta(100.0) == 1.0
    assert certified_for(ledger, Guarantee("ldp", 1.0)).verdict == "unbounded"


def test_noise_of_unequal_scales_adds_up_and_is_accounted_more_tightly_than_by_its_largest_loss() -> None:
    ledger = ledger_of("ldp", release(), release(channel="rewards", mechanism=Laplace(5.0)))
    assert ledger.curve.pure_epsilon == pytest.approx(4 / 10 + 4 / 5)
    assert certified_for(ledger, Guarantee("ldp", 2.0)).tightness == "exact"
    five = Laplace(5.0)
    exact = ledger_of("ldp", release(mechanism=five), release(channel="rewards", mechanism=five))
    assert ledger.epsilon(1e-6) < exact.epsilon(1e-6)


@pytest.mark.parametrize(("arithmetic", "best"), [("fast", "gaussian"), ("exact", "discrete_gaussian")])
def test_the_best_noise_is_of_the_arithmetic_that_was_asked_for(
    arithmetic: Any, best: str, tabular_families: Families
) -> None:
    settings = CountPrivacy("jdp", 1.0, delta=1e-6, mechanism="discrete_laplace")
    streams = Streams(0, "best", NoiseConfig(arithmetic))
    found = settings.build(tabular_families(5), 999, streams).planned_certificate("x").to_dict()["best_available"]
    assert found["mechanism"] == best
    assert found["ratio"] > 1.5


@pytest.mark.parametrize(
    "privatizer",
    [
        GradientPrivacy("jdp", 1.0, 1e-6, "clipped_gaussian").build(GradientLayout(3), 5, Streams(0, "infinite")),
        GradientPrivacy("none").build(GradientLayout(3), 5, Streams(0, "infinite")),
    ],
    ids=["gaussian", "raw gradients"],
)
def test_an_infinite_pure_epsilon_is_neither_exact_nor_an_upper_bound(privatizer: Any) -> None:
    proved = privatizer.planned_certificate("x").to_dict()["proved"]
    assert (proved["pure_epsilon"], proved["tightness"]) == ("inf", None)
    assert "pure: no finite epsilon" in proved["method"]


@pytest.mark.parametrize(("off", "told"), [(-1e-6, "holds"), (0.0, "holds"), (1e-6, "fails")])
def test_a_claim_holds_up_to_rounding_and_no_further(off: float, told: str) -> None:
    near = 1.0 + off
    assert verdict(0.7, 0.0, 0.7 * near, 1.0, raw=False) == told
    assert verdict(0.7, 1e-5, 0.7 * near, 1.0, raw=False) == told
    assert verdict(0.7, 1e-5, math.inf, 1e-5 * near, raw=False) == told
    approximately = "holds_approximately" if off <= 0.0 else "fails"
    assert verdict(0.7, 0.0, math.inf, 1e-6 * near, raw=False) == approximately
    assert verdict(0.7, 1e-5, 0.7 * near, 1e-5, raw=True) == "unbounded"


def test_every_submission_counts_and_one_release_that_does_not_attain_its_bound_is_enough() -> None:
    one, other = release(), release(attainable=False)
    for submissions in (1, 3):
        both = ledger_of("ldp", one, other, users=5, submissions=submissions)
        assert both.curve.pure_epsilon == pytest.approx(submissions * 2.0 * one.curve().pure_epsilon)
        assert not both.design.attained
        assert ledger_of("ldp", one, one, users=5, submissions=submissions).design.attained


# Certificates of several runs together: their proofs, their verification, and what cannot be composed.


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


# Bounds for people with several episodes, on certificates of every query.


def privatizers() -> Iterator[Any]:
    for kind in KINDS:
        yield pytest.param(lambda kind=kind: _privatizer(kind), id=f"counts {kind}")
    for name in GRADIENTS:
        yield pytest.param(lambda name=name: of_gradients(name), id=f"gradients {name}")
    yield pytest.param(of_running_sums, id="gradients in running sums")
    yield pytest.param(lambda: of_rounds(clip=3.0), id="gradients in sampled rounds")
    for name in STATISTICS:
        yield pytest.param(lambda name=name: of_statistics(name), id=f"statistics {name}")


@pytest.mark.parametrize("kind", ["ldp", "jdp, buffered"])
def test_attempts_count_for_people_with_several_episodes(kind: str) -> None:
    made = _privatizer(kind)
    spec = made.design
    twice = Ledger(spec, charges=[spec.n_users, spec.n_users])
    for bound in certify(twice, "x").to_dict()["episodes_per_user"]["bounds"]:
        assert float(bound["epsilon"]) >= twice.epsilon(bound["delta"]) * (1.0 - 1e-9)
        if bound["delta"] == 0.0:
            assert float(bound["epsilon"]) == pytest.approx(bound["episodes"] * twice.curve.pure_epsilon)


@pytest.mark.parametrize("make", list(privatizers()))
def test_bounds_are_those_of_the_ledger(make: Any) -> None:
    privatizer = make()
    found = privatizer.planned_certificate("x").to_dict()
    ledger, users = privatizer.planned_ledger(), found["episodes_per_user"]
    if users is None:
        return
    assert users["relation"] == found["adjacency"]
    for bound in users["bounds"]:
        one = ledger.epsilon(bound["delta"])
        assert float(bound["epsilon"]) >= one * (1.0 - 1e-9)
        assert float(bound["epsilon"]) == min(float(bound["group"]), float(bound["joint"] or math.inf))
