"""Counts that are summed over the steps of an episode, for environments that are the same at every step."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dprl.algorithms.bernstein_vi import BernsteinVIConfig
from dprl.envs import Garnet, GridWorld, RandomMDP, RiverSwim
from dprl.privacy import (
    CountFamilies,
    CountFamily,
    CountPrivacy,
    CountPrivatizer,
    PooledFamilies,
    Privatizer,
    Streams,
    UserRecord,
)
from dprl.privacy.audits.distinguishing_attack import measure
from dprl.privacy.audits.findings import Claim, proof_of
from dprl.privacy.audits.privatizer_probes import central_prefixes, local_reports, sent_row
from dprl.privacy.counters import ExactCounter
from dprl.privacy.counters.error import UnaryCell, _log_pooled_moment
from dprl.privacy.queries.count_layout import CountEncoding
from dprl.privacy.queries.counts import CountQuery
from tests.privacy.by_hand import design_of
from tests.privacy.sending import sent

H, PAIRS, STATES = 6, 4, 2
FAMILIES = (
    CountFamily("transitions", PAIRS * STATES),
    CountFamily("visits", PAIRS, marginal_of="transitions"),
    CountFamily("losses", PAIRS, marginal_of="transitions", indicator=False),
)
STREAMS = Streams(0, "pooled")
RUNS, ALPHA = 200_000, 1e-4


def pooled(steps: int = H) -> PooledFamilies:
    return PooledFamilies(steps, FAMILIES)


def exactly(families: CountFamilies, kind: str, n_users: int = 20) -> CountPrivatizer:
    """A privatizer without noise."""
    query = CountQuery(CountEncoding(families, kind), None, ExactCounter(n_users))
    return Privatizer(design_of(query, n_users, None), STREAMS)


def trajectory(generator: np.random.Generator, steps: int = H) -> UserRecord:
    cells = generator.integers(PAIRS * STATES, size=steps)
    index = np.stack([cells, cells % PAIRS, cells % PAIRS], axis=1)
    return UserRecord(index, np.stack([np.ones(steps), np.ones(steps), generator.random(steps)], axis=1))


@settings(deadline=None)  # the first call compiles
@given(st.integers(0, 2**32 - 1), st.sampled_from(["separate", "one_hot"]))
def test_no_two_records_differ_by_more(seed: int, kind: str) -> None:
    """Records with any content: a faulty device may send contradictory or invalid cells."""
    generator = np.random.default_rng(seed)
    most = generator.integers(1, 2 * PAIRS * STATES)
    rows = []
    for _ in range(2):
        index, value = generator.integers(-2, most, size=(H, 3)), 2.0 * generator.standard_normal((H, 3))
        privatizer = exactly(pooled(), kind)
        rows.append(sent_row(privatizer, UserRecord(index, value)))
    encoding = CountEncoding(pooled(), kind)
    row, changed = encoding.released.row(len(encoding.released.families)), np.abs(rows[0] - rows[1])
    assert changed.sum() <= row.l1
    rises = (rows[0] - rows[1])[rows[0] > rows[1]].sum()
    assert max(rises, changed.sum() - rises) <= row.l1 / 2 + 1e-9
    assert np.linalg.norm(changed) <= row.l2 + 1e-9
    assert changed.max() <= row.linf
    assert np.count_nonzero(changed) <= row.cells


@pytest.mark.parametrize("known", [False, True])
def test_the_sensitivity_of_released_cells_is_attained(known: bool) -> None:
    """Over all pairs of records."""
    pairs, states, steps = 2, 2, 4
    widths = {"transitions": pairs * states, "visits": pairs, "losses": pairs}
    families = tuple(replace(each, width=widths[each.name]) for each in FAMILIES)[: 2 if known else 3]
    encoding = CountEncoding(PooledFamilies(steps, families), "one_hot")
    privatizer, sums = exactly(encoding.needed, "one_hot"), set()
    for cells in itertools.product(range(pairs * states), repeat=steps):
        for losses in [(1.0,) * steps] if known else itertools.product((0.0, 1.0), repeat=steps):
            index = np.stack([np.array(cells), *[np.array(cells) % pairs] * (len(families) - 1)], axis=1)
            value = np.ones(index.shape)
            value[:, -1] = losses
            sums.add(tuple(sent_row(privatizer, UserRecord(index, value))))
    rows = np.array(sorted(sums))
    changes = np.abs(rows[:, None] - rows[None])
    row = encoding.released.row(len(encoding.released.families))
    assert changes.sum(axis=2).max() == row.l1 == 2 * steps
    assert np.sqrt((changes**2).sum(axis=2).max()) == pytest.approx(row.l2)
    assert (changes.max(), np.count_nonzero(changes, axis=2).max()) == (row.linf, row.cells)


@pytest.mark.parametrize("kind", ["separate", "one_hot"])
def test_they_are_the_counts_of_all_steps(kind: str) -> None:
    generator = np.random.default_rng(1)
    records = [trajectory(generator) for _ in range(20)]
    for record in records:
        record.value[:] = np.round(record.value)  # so that coins are not random
    privatizer = exactly(pooled(), kind)
    for user, record in enumerate(records, start=1):
        sent(privatizer, record, user)
    counts = privatizer.release()
    expected = {family.name: np.zeros(family.width) for family in FAMILIES}
    for record in records:
        for (cell, pair, _), value in zip(record.index, record.value, strict=True):
            expected["transitions"][cell] += 1
            expected["visits"][pair] += 1
            expected["losses"][pair] += value[2]
    for name, cells in expected.items():
        assert np.array_equal(privatizer.query.family(counts, name)[0], cells)


@pytest.mark.parametrize("mechanism", ["laplace", "sampled_optimized_unary_encoding", "sampled_direct_encoding"])
def test_local_reports_add_up_to_them_on_average(mechanism: str) -> None:
    """Means of 4,000 users lie within 6 standard errors; error bounds at 1e-6 hold as well."""
    generator, n_users = np.random.default_rng(2), 4000
    privacy = CountPrivacy("ldp", 4.0, families="one_hot", mechanism=mechanism)
    exact, noisy = exactly(pooled(), "one_hot", n_users), privacy.build(pooled(), n_users, STREAMS)
    for user in range(1, n_users + 1):
        record = trajectory(generator)
        record.value[:] = np.round(record.value)
        for privatizer in (exact, noisy):
            sent(privatizer, record, user)
    truth, found = exact.release().values, noisy.release().values
    certificate = noisy.certificate("x").to_dict()
    assert certificate["verdict"] == "holds"
    transitions = noisy.query.family
    error = transitions(noisy.release(), "transitions") - transitions(exact.release(), "transitions")
    # The most of a cell, at the end: every user adds the noise's variance at each of 6 steps, and a little more where a
    # bit is 1. Of 8 cells, the mean square lies in these bounds but for a chance of 1e-3, and not without the 6 steps.
    ratio = np.sqrt(np.mean(error**2)) / certificate["error"]["max"]
    assert 0.35 < ratio < 1.9
    bounds = noisy.precision(1e-6)
    assert np.abs(error).max() <= bounds["transitions"]
    assert np.abs(found - truth).max() <= max(bounds.values())
    sums = ("transitions", STATES, 1, n_users)
    assert np.abs(error.reshape(STATES, PAIRS).sum(axis=0)).max() <= noisy.query.weighted_precision(*sums, 1e-6)


@given(
    st.integers(1, 3),
    st.floats(0.05, 0.45),
    st.floats(0.5, 0.99),
    st.lists(st.floats(0.0, 1.0), min_size=2, max_size=3),
    st.floats(-3.0, 3.0),
)
def test_the_moment_of_a_pooled_sum_is_the_largest(
    steps: int, q: float, p: float, weights: list[float], argument: float
) -> None:
    """The largest over all trajectories and weights in [0, 1], by listing trajectories, bits and steps sent."""
    cells = len(weights)
    bound = _log_pooled_moment(UnaryCell(p, q, steps, cells), argument)
    for path in itertools.product(range(cells + 1), repeat=steps):  # the last cell is in no sum
        truth = sum(weights[cell] for cell in path if cell < cells)
        mean = 0.0
        for hot in path:
            log = 0.0
            for cell, weight in enumerate(weights):
                chance = p if cell == hot else q
                step = argument * steps * weight / (p - q)
                log += math.log((1 - chance) * math.exp(-step * q) + chance * math.exp(step * (1 - q)))
            mean += math.exp(log) / steps
        assert math.log(mean) - argument * truth <= bound + 1e-9


def attacked(config: CountPrivacy, claim: Claim, runs: int = RUNS) -> Any:
    privatizer = config.build(pooled(steps=3), 2, STREAMS)
    probe = central_prefixes if privatizer.trust_model == "jdp" else local_reports
    proved = proof_of(privatizer.planned_ledger().curve, claim)
    return measure(probe(privatizer, f"{config}"), claim, proved, runs=runs, seed=0, alpha=ALPHA)


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("jdp", {"counter": "kary_tree"}),
        ("ldp", {"mechanism": "laplace"}),
        ("ldp", {"mechanism": "sampled_optimized_unary_encoding"}),
        ("ldp", {"mechanism": "sampled_direct_encoding"}),
    ],
)
def test_audits_reach_the_proof_and_refute_two_thirds_of_the_noise(model: Any, settings: Any) -> None:
    """False alarm of a sound release: below 1e-4."""
    sound = attacked(CountPrivacy(model, 1.0, families="one_hot", **settings), Claim(1.0))
    assert not sound.refutes
    assert 0.6 < sound.epsilon_lb <= 1.0
    assert attacked(CountPrivacy(model, 1.5, families="one_hot", **settings), Claim(1.0)).refutes


def test_the_certificate_says_what_is_assumed() -> None:
    def certificate(families: CountFamilies) -> Any:
        return CountPrivacy("jdp", 1.0).build(families, 9, STREAMS).planned_certificate("x").to_dict()

    assert certificate(CountFamilies(H, FAMILIES))["assumption"] is None
    assert certificate(pooled())["assumption"].startswith("the environment is the same at every step")


def built(env: Any, privacy: CountPrivacy, **settings: Any) -> CountPrivatizer:
    return BernsteinVIConfig(stationary=True, **settings).privatizer(env.build(), privacy, 100, STREAMS)


@pytest.mark.parametrize("env", [RiverSwim(), GridWorld(), Garnet(), RandomMDP(stationary=True)])
def test_environments_that_are_the_same_at_every_step(env: Any) -> None:
    privatizer = built(env, CountPrivacy("none"))
    sizes = env.build()
    assert privatizer.query.families.n_cells == sizes.n_states * sizes.n_actions * (sizes.n_states + 2)
    assert privatizer.in_blocks


def test_others_are_refused() -> None:
    with pytest.raises(ValueError, match="stationary must be false on random_mdp, got true"):
        built(RandomMDP(), CountPrivacy("none"))
    with pytest.raises(ValueError, match="calibration must be certified here, got printed"):
        built(RiverSwim(), CountPrivacy("jdp", 1.0, calibration="printed"))
    with pytest.raises(ValueError, match="stationary must be true or false"):
        BernsteinVIConfig(stationary="yes")  # type: ignore[arg-type]
