"""Privatizers: the contract over trust models, the bounded sensitivity, and the sealed counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dprl.privacy import (
    TRUST_MODELS,
    CentralPrivacy,
    Contribution,
    CountFamilies,
    LedgerError,
    LocalPrivacy,
    NoPrivacy,
    PrivateCounts,
    Privatizer,
    Report,
    Streams,
)
from dprl.privacy.base import issue_report
from dprl.privacy.exchange import encode, exchange
from dprl.privacy.privatizers import NoiseParts

Families = Callable[..., CountFamilies]
Users = Callable[[CountFamilies, np.random.Generator], Contribution]
SETTINGS: dict[str, Any] = {"none": NoPrivacy(), "jdp": CentralPrivacy(1.0), "ldp": LocalPrivacy(1.0)}
HORIZON, N_USERS = 4, 21


def test_every_trust_model_is_under_test() -> None:
    assert set(SETTINGS) == set(TRUST_MODELS)


@pytest.fixture(params=sorted(SETTINGS))
def privatizer(request: pytest.FixtureRequest, tabular_families: Families) -> Privatizer:
    built: Privatizer = SETTINGS[request.param].build(tabular_families(HORIZON), N_USERS, Streams(0, "contract"))
    return built


def twin(privatizer: Privatizer, users: int = N_USERS) -> Privatizer:
    built: Privatizer = SETTINGS[privatizer.trust_model].build(privatizer.families, users, Streams(0, "contract"))
    return built


def users_of(privatizer: Privatizer, random_contribution: Users, n: int) -> list[Contribution]:
    rng = np.random.default_rng(5)
    return [random_contribution(privatizer.families, rng) for _ in range(n)]


def test_one_user_at_a_time_equals_the_compiled_exchange_bit_for_bit(
    privatizer: Privatizer, random_contribution: Users
) -> None:
    compiled = twin(privatizer)
    for user, contribution in enumerate(users_of(privatizer, random_contribution, N_USERS), start=1):
        counts = privatizer.absorb(privatizer.encode(contribution, user))
        compiled.charge(user, user)
        exchange(compiled.channel, contribution.index, contribution.value, user)
        assert np.array_equal(counts.values, compiled.channel.released)
        assert counts.n_users == user


def test_noise_is_all_that_separates_private_counts_from_the_truth(
    privatizer: Privatizer, random_contribution: Users
) -> None:
    truth = SETTINGS["none"].build(privatizer.families, N_USERS, Streams(0, "truth"))
    bounds = privatizer.precision(1e-9).bounds
    for user, contribution in enumerate(users_of(privatizer, random_contribution, N_USERS), start=1):
        counts = privatizer.absorb(privatizer.encode(contribution, user))
        exact = truth.absorb(truth.encode(contribution, user))
        for family in privatizer.families.families:
            error = np.abs(counts.family(family.name) - exact.family(family.name)).max()
            assert error <= bounds[family.name] + 1e-9
            assert (error == 0) == (privatizer.trust_model == "none")


def test_state_dict_resumes_bit_for_bit(privatizer: Privatizer, random_contribution: Users) -> None:
    contributions = users_of(privatizer, random_contribution, N_USERS)
    for user, contribution in enumerate(contributions[:8], start=1):
        privatizer.absorb(privatizer.encode(contribution, user))
    resumed = twin(privatizer)
    resumed.load_state_dict({key: value.copy() for key, value in privatizer.state_dict().items()})
    for user, contribution in enumerate(contributions[8:], start=9):
        ours = resumed.absorb(resumed.encode(contribution, user))
        theirs = privatizer.absorb(privatizer.encode(contribution, user))
        assert np.array_equal(ours.values, theirs.values)


def test_a_user_submits_once_and_in_order(privatizer: Privatizer, random_contribution: Users) -> None:
    contribution = users_of(privatizer, random_contribution, 1)[0]
    privatizer.encode(contribution, 1)
    with pytest.raises(LedgerError, match="user 1 cannot submit"):
        privatizer.encode(contribution, 1)
    with pytest.raises(LedgerError, match="user 3 cannot submit"):
        privatizer.encode(contribution, 3)
    with pytest.raises(ValueError, match="at most 21 users may submit"):
        privatizer.charge(2, N_USERS + 1)


def test_the_ledger_is_charged_before_the_message_exists(
    privatizer: Privatizer, random_contribution: Users, monkeypatch: pytest.MonkeyPatch
) -> None:
    charged: list[int] = []

    def watched(*arguments: Any) -> None:
        charged.append(privatizer.ledger.users_charged)
        encode(*arguments)

    monkeypatch.setattr("dprl.privacy.privatizers.encode", watched)
    privatizer.encode(users_of(privatizer, random_contribution, 1)[0], 1)
    assert charged == [1]


@pytest.mark.parametrize("value", [7.0, -3.0, float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("index", [0, -5, 10**9])
def test_whatever_a_device_holds_its_message_stays_within_the_sensitivity(
    privatizer: Privatizer, index: int, value: float
) -> None:
    families = privatizer.families
    shape = (families.n_steps, len(families.families))
    blank = twin(privatizer)
    extreme = Contribution(np.full(shape, index, dtype=np.int64), np.full(shape, value))
    nothing = Contribution(np.zeros(shape, dtype=np.int64), np.zeros(shape))
    change = privatizer.encode(extreme, 1).values - blank.encode(nothing, 1).values
    assert np.abs(change).max() <= 1 + 1e-9
    rows = change.reshape(families.n_steps, families.block)
    for start, family in zip(families.offsets(), families.families, strict=True):
        per_step = np.abs(rows[:, start : start + family.width]).sum(axis=1)
        assert np.all(per_step <= 1 + 1e-9)


def test_a_report_is_absorbed_once_and_in_order(privatizer: Privatizer, random_contribution: Users) -> None:
    first, second = (
        privatizer.encode(c, u) for u, c in enumerate(users_of(privatizer, random_contribution, 2), start=1)
    )
    with pytest.raises(LedgerError, match="absorbed once, in order"):
        privatizer.absorb(second)
    assert not privatizer.private_counts().values.any()
    assert privatizer.absorb(first).n_users == 1
    with pytest.raises(LedgerError, match="absorbed once, in order"):
        privatizer.absorb(first)
    assert privatizer.absorb(second).n_users == 2


def test_the_compiled_exchange_refuses_whom_the_ledger_has_not_charged(
    privatizer: Privatizer, random_contribution: Users
) -> None:
    contribution = users_of(privatizer, random_contribution, 1)[0]
    with pytest.raises(LedgerError, match="after the ledger has charged them"):
        exchange(privatizer.channel, contribution.index, contribution.value, 1)
    privatizer.charge(1, 1)
    exchange(privatizer.channel, contribution.index, contribution.value, 1)
    with pytest.raises(LedgerError, match="absorbed once"):
        exchange(privatizer.channel, contribution.index, contribution.value, 1)


def test_a_report_of_another_privatizer_is_refused(privatizer: Privatizer) -> None:
    privatizer.charge(1, 1)
    with pytest.raises(LedgerError, match="a report has"):
        privatizer.absorb(issue_report(1, np.zeros(3)))


def test_too_many_rows_stay_inside_the_counts(privatizer: Privatizer) -> None:
    privatizer.charge(1, 1)
    rows = np.zeros((500, 40), dtype=np.int64)
    exchange(privatizer.channel, rows, np.ones(rows.shape), 1)
    assert np.isfinite(privatizer.private_counts().values).all()


def test_state_of_another_shape_or_after_the_start_is_refused(
    privatizer: Privatizer, random_contribution: Users
) -> None:
    state = privatizer.state_dict()
    with pytest.raises(ValueError, match="'noise' is missing or of another shape"):
        privatizer.load_state_dict(state | {"noise": np.zeros((77, 1))})
    with pytest.raises(ValueError, match="9 users absorbed and 3 charged"):
        privatizer.load_state_dict(state | {"users": np.array([9, 3])})
    privatizer.encode(users_of(privatizer, random_contribution, 1)[0], 1)
    later = privatizer.state_dict()
    with pytest.raises(LedgerError, match="user 1 cannot submit"):
        privatizer.load_state_dict(later)


def test_noise_that_was_changed_after_charging_cannot_be_certified(privatizer: Privatizer) -> None:
    privatizer._channel = privatizer._channel._replace(report_scale=1e-9)
    with pytest.raises(LedgerError, match="not the noise that was charged"):
        privatizer.certificate("private_ucb_vi")


def test_noise_on_the_wrong_side_is_refused(tabular_families: Families) -> None:
    built = CentralPrivacy(1.0).build(tabular_families(2), 3, Streams(0, "side"))
    for model in ("none", "ldp"):
        with pytest.raises(LedgerError, match=f"{model} needs its noise on"):
            Privatizer(built.request, model, built.families, built._noise, Streams(0, "side"))
    assert isinstance(built._noise, NoiseParts)


def test_a_channel_does_not_print_what_is_not_released(privatizer: Privatizer) -> None:
    assert "totals" not in repr(privatizer.channel)
    assert "array" not in repr(privatizer)


def test_contributions_of_the_wrong_shape_are_refused(privatizer: Privatizer) -> None:
    with pytest.raises(ValueError, match="one cell per step and family"):
        privatizer.encode(Contribution(np.zeros((1, 3), dtype=np.int64), np.zeros((1, 3))), 1)
    assert privatizer.ledger.users_charged == 0


def test_private_counts_cannot_be_made_or_changed_outside(privatizer: Privatizer) -> None:
    with pytest.raises(TypeError, match="issued by a Privatizer only"):
        PrivateCounts(privatizer.families, np.zeros(privatizer.families.n_cells), 0, object())  # type: ignore[arg-type]
    counts = privatizer.private_counts()
    with pytest.raises(TypeError, match="issued by a Privatizer only"):
        dataclasses.replace(counts, values=np.ones(privatizer.families.n_cells))
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        counts.values.flags.writeable = True
    with pytest.raises(TypeError, match="issued by a Privatizer only"):
        Report(1, np.zeros(privatizer.families.n_cells), object())  # type: ignore[arg-type]
    assert not counts.values.any()
    with pytest.raises(ValueError, match="read-only"):
        counts.values[0] = 1.0
    with pytest.raises(KeyError, match="no count family"):
        counts.family("visit")


def test_the_same_user_with_and_without_a_neighbour_in_the_past_sends_the_same_report(
    tabular_families: Families, random_contribution: Users
) -> None:
    rng = np.random.default_rng(0)
    families = tabular_families(HORIZON)
    one, other = (LocalPrivacy(1.0).build(families, 2, Streams(0, "x")) for _ in range(2))
    one.encode(random_contribution(families, rng), 1)
    other.encode(random_contribution(families, rng), 1)
    second = random_contribution(families, rng)
    assert np.array_equal(one.encode(second, 2).values, other.encode(second, 2).values)


def test_local_reports_have_the_certified_scale_and_no_other(tabular_families: Families) -> None:
    # Kolmogorov-Smirnov at a fixed seed; false-alarm rate 1e-3.
    families = tabular_families(20, n_states=8, n_actions=3)
    privatizer = LocalPrivacy(2.0).build(families, 2, Streams(0, "scale"))
    shape = (20, 3)
    noise = privatizer.encode(Contribution(np.zeros(shape, dtype=np.int64), np.zeros(shape)), 1).values
    scale = 6 * 20 / 2.0
    assert stats.kstest(noise, stats.laplace(scale=scale).cdf).pvalue > 1e-3
    for factor in (2 / 3, 3 / 2):
        assert stats.kstest(noise, stats.laplace(scale=scale * factor).cdf).pvalue < 1e-20


def test_reports_of_two_users_share_no_noise(tabular_families: Families) -> None:
    families = tabular_families(HORIZON)
    privatizer = LocalPrivacy(1.0).build(families, 2, Streams(0, "x"))
    nobody = Contribution(np.zeros((HORIZON, 3), dtype=np.int64), np.zeros((HORIZON, 3)))
    first, second = privatizer.encode(nobody, 1), privatizer.encode(nobody, 2)
    assert isinstance(first, Report)
    assert not np.isclose(first.values, second.values).any()


@pytest.mark.parametrize(
    ("settings", "scale"),
    [
        (CentralPrivacy(2.0), 6 * 5 * 10 / 2.0),
        (CentralPrivacy(2.0, calibration="printed"), 3 * 5 * np.log(1000) / 2.0),
        (LocalPrivacy(2.0), 6 * 5 / 2.0),
        (LocalPrivacy(2.0, calibration="printed"), 3 * 5 / 2.0),
    ],
)
def test_scales_of_the_calibrations(
    settings: CentralPrivacy | LocalPrivacy, scale: float, tabular_families: Families
) -> None:
    privatizer = settings.build(tabular_families(5), 999, Streams(0, "scale"))
    assert [release.noise.scale for release in privatizer.ledger.releases if release.noise] == pytest.approx(
        [scale] * 3
    )


def test_printed_precision_is_the_papers_formula(tabular_families: Families) -> None:
    n_states, n_actions, horizon, episodes, beta, epsilon = 3, 2, 5, 1000, 0.1, 0.7
    steps, log_k = horizon * episodes, np.log(episodes)
    cells = n_states * n_actions * steps
    for settings, growth in (
        (CentralPrivacy(epsilon, calibration="printed", precision="printed"), log_k**3),
        (LocalPrivacy(epsilon, calibration="printed", precision="printed"), episodes),
    ):
        bounds = settings.build(tabular_families(horizon), episodes - 1, Streams(0, "p")).precision(beta).bounds
        e1 = 3 * horizon / epsilon * np.sqrt(8 * growth * np.log(6 * cells / beta))
        e2 = 3 * horizon / epsilon * np.sqrt(8 * growth * np.log(6 * n_states * cells / beta))
        assert bounds == pytest.approx({"visits": e1, "rewards": e1, "transitions": e2})


@pytest.mark.parametrize("settings", [CentralPrivacy(1.0), LocalPrivacy(1.0)])
def test_exact_precision_holds_in_runs_and_is_below_the_printed_one(
    settings: CentralPrivacy | LocalPrivacy, tabular_families: Families
) -> None:
    # 200 runs: failures may exceed beta by 4 standard deviations (one-sided 3e-5).
    beta, n_runs, users = 0.2, 200, 30
    families = tabular_families(2, n_states=2)
    nobody = Contribution(np.zeros((2, 3), dtype=np.int64), np.zeros((2, 3)))
    failures = 0
    for run in range(n_runs):
        privatizer = settings.build(families, users, Streams(run, "precision"))
        bounds = privatizer.precision(beta).bounds
        worst = dict.fromkeys(bounds, 0.0)
        for user in range(1, users + 1):
            counts = privatizer.absorb(privatizer.encode(nobody, user))
            for name in bounds:
                worst[name] = max(worst[name], float(np.abs(counts.family(name)).max()))
        failures += any(worst[name] > bounds[name] for name in bounds)
    assert failures / n_runs <= beta + 4 * np.sqrt(beta * (1 - beta) / n_runs)


@pytest.mark.parametrize(
    ("kind", "values", "message"),
    [
        (CentralPrivacy, {"epsilon": 0}, "epsilon must be finite and above 0, got 0"),
        (CentralPrivacy, {"epsilon": -1.0}, "got -1.0"),
        (LocalPrivacy, {"epsilon": float("nan")}, "got nan"),
        (LocalPrivacy, {"epsilon": float("inf")}, "write model: none"),
        (LocalPrivacy, {"epsilon": True}, "epsilon must be a number"),
        (CentralPrivacy, {"epsilon": "1"}, "epsilon must be a number"),
        (CentralPrivacy, {"epsilon": 1e-300}, "between 1e-9 and 1e9"),
        (CentralPrivacy, {"epsilon": 1.0, "delta": 1.0}, "delta must be 0 or lie in"),
        (LocalPrivacy, {"epsilon": 1.0, "delta": 1e-16}, "delta must be 0 or lie in"),
        (CentralPrivacy, {"epsilon": 1.0, "counter": "binary_three"}, "counter must be one of binary_tree"),
        (CentralPrivacy, {"epsilon": 1.0, "counter": "exact"}, "counter must be one of binary_tree"),
        (LocalPrivacy, {"epsilon": 1.0, "calibration": "print"}, "calibration must be one of certified, printed"),
        (LocalPrivacy, {"epsilon": 1.0, "precision": "exakt"}, "precision must be one of exact, printed"),
        (LocalPrivacy, {"epsilon": 1.0, "mechanism": "gauss"}, "mechanism must be one of laplace"),
        (
            LocalPrivacy,
            {"epsilon": 1.0, "delta": 1e-6, "calibration": "printed"},
            "delta must be 0 with the printed calibration",
        ),
    ],
)
def test_bad_settings_are_refused_in_one_line(kind: type, values: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        kind(**values)
    assert "\n" not in str(caught.value)
