"""Ledgers: what every mechanism proves in one, and agents that submit in any order up to a cap."""

from __future__ import annotations

import copy
import json
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from time import sleep
from typing import Any

import numpy as np
import pytest

from dprl.privacy import (
    Certificate,
    Guarantee,
    Ledger,
    LedgerError,
    PrivacyRequest,
    Release,
    SubmissionLedger,
    certify,
)
from dprl.privacy import base as nouns
from dprl.privacy.accounting import composed_epsilon
from dprl.privacy.base import TrustModel
from dprl.privacy.mechanisms import BITS, GRAMS, VECTORS, MessageMechanism
from dprl.privacy.mechanisms.base import Sensitivity
from dprl.privacy.mechanisms.gram import GramRelease
from dprl.privacy.mechanisms.gram_laplace import GramLaplace
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.randomized_response import RandomizedResponse
from dprl.privacy.scopes import COUNTS
from tests.privacy.ledgers.cases import AGENTS, CAP, N_AGENTS, Notes, agents, laplace

UNCALIBRATED = "gram_uniform"
MESSAGES: dict[str, Any] = {name: kind for name, kind in (VECTORS | GRAMS).items() if name != UNCALIBRATED}
SHAPES: dict[str, dict[str, Any]] = {
    **{name: {"dimension": 6, "clip": 2.0} for name in VECTORS},
    "privunit": {"dimension": 6},
    **{name: {"release": GramRelease.of_horizon(4, 3, 2)} for name in GRAMS},
}
"""What each mechanism of messages needs beside its guarantee."""
PURE = sorted(set(MESSAGES) - {"clipped_gaussian", "gram_gaussian", "gram_bounded_laplace"})
GUARANTEES = [
    *((name, 0.0) for name in PURE),
    *((name, 1e-5) for name in sorted(MESSAGES)),
]


def calibrated(name: str, epsilon: float, delta: float, **options: Any) -> MessageMechanism:
    found: MessageMechanism = MESSAGES[name].calibrated(epsilon, delta, **SHAPES[name], **options)
    return found


def verdict_of(release: Release, epsilon: float, delta: float) -> Certificate:
    guarantee = Guarantee("ldp", epsilon, delta)
    ledger = Ledger("ldp", [release], COUNTS["ldp"])
    return certify(ledger, PrivacyRequest(guarantee, guarantee, "certified", "a test"), "x")


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("name", "delta"), GUARANTEES)
def test_messages_meet_the_guarantee_that_they_are_calibrated_for(name: str, delta: float, exact: bool) -> None:
    # The bits of the first are always exact, the second has no sampler on a grid.
    options = {} if name in {"projected_random_sign", "gram_bounded_laplace"} else {"exact": exact}
    mechanism = calibrated(name, 1.0, delta, **options)
    release = Release.of_message("gradients", mechanism, attainable=False, cells=6, entropy="os")
    found = verdict_of(release, 1.0, delta)
    assert found.verdict == "holds"
    assert verdict_of(release, 0.5, delta).verdict in {"fails", "holds_approximately"}
    assert found.proof.tightness == ("upper" if found.proof.pure_epsilon < math.inf else None)
    written = found.to_dict()
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert written["noise"][0]["parameters"]


@pytest.mark.parametrize(("name", "delta"), GUARANTEES)
def test_three_submissions_of_messages_cost_at_most_three_times_as_much(name: str, delta: float) -> None:
    release = Release.of_message("gradients", calibrated(name, 1.0, delta), attainable=False, cells=6, entropy="os")
    ledger = SubmissionLedger("ldp", [release], AGENTS, N_AGENTS, 3)
    assert ledger.pure_epsilon() == pytest.approx(3 * release.curve().pure_epsilon)
    assert 1.0 < ledger.epsilon(3 * delta) <= 3.0 * (1 + 1e-9)


def test_one_submission_of_a_gram_is_an_episode_of_all_agents() -> None:
    one, two = (GramLaplace(GramRelease.of_horizon(4, 3, agents), (40.0, 30.0, 20.0, 0.0)) for agents in (1, 2))
    proved = [Release.of_message("gram", gram, False, 9, "os").curve().pure_epsilon for gram in (one, two)]
    assert proved[1] == pytest.approx(2 * proved[0])


def test_the_caller_says_whether_a_message_attains_its_bound() -> None:
    mechanism = calibrated("clipped_laplace", 1.0, 0.0)
    for attainable, tightness in ((True, "exact"), (False, "upper")):
        release = Release.of_message("gradients", mechanism, attainable, 6, "os")
        assert verdict_of(release, 1.0, 0.0).proof.tightness == tightness


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("name", BITS)
def test_coins_in_place_of_bits_meet_the_guarantee(name: str, delta: float) -> None:
    changed = Sensitivity.of_cells(10)
    mechanism = BITS[name].calibrated(1.0, delta, changed)
    release = Release("bits", mechanism, changed, Sensitivity.of_cells(8), True, 1, 40, "os")
    found = verdict_of(release, 1.0, delta)
    assert found.verdict == "holds"
    assert verdict_of(release, 0.5, delta).verdict in {"fails", "holds_approximately"}
    noise = found.to_dict()["noise"][0]
    assert (noise["mechanism"], noise["arithmetic"]) == (name, "integer")
    assert noise["parameters"] == {"epsilon": mechanism.epsilon}


def test_parameters_are_the_numbers_of_a_mechanism_and_of_its_parts() -> None:
    sign = calibrated("projected_random_sign", 6.0, 0.0)
    gram = GramLaplace(GramRelease(2, (3.0, 0.0), 4), (5.0, 0.0), exact=True)
    written = [
        verdict_of(Release.of_message("x", mechanism, False, 5, "os"), 9.0, 0.0).to_dict()["noise"][0]
        for mechanism in (sign, gram)
    ]
    assert written[0]["parameters"] == {"dimension": 6, "projections": 2, "clip": 2.0, "bit.epsilon": 3.0}
    assert written[1]["parameters"] == {
        "release.dimension": 2, "release.bounds": [3.0, 0.0], "release.n_messages": 4, "release.clipped": True,
        "scales": [5.0, 0.0], "isotropic": False, "exact": True,
    }  # fmt: skip


def test_a_message_has_no_sensitivity_beside_its_own_and_noise_on_cells_needs_one() -> None:
    with pytest.raises(LedgerError, match="unless its mechanism bounds it itself"):
        Release("x", calibrated("privunit", 1.0, 0.0), Sensitivity.of_cells(1), None, False, 1, 6, "os")
    with pytest.raises(LedgerError, match="unless its mechanism bounds it itself"):
        Release("x", Laplace(1.0), None, None, False, 1, 6, "os")


def test_agents_submit_in_any_order_up_to_the_cap() -> None:
    ledger = agents()
    assert [ledger.charge(agent) for agent in (4, 2, 4, 4, 1)] == [1, 1, 2, 3, 1]
    for _ in range(2):
        with pytest.raises(LedgerError, match="agent 4 cannot submit: all of its 3 submissions are charged"):
            ledger.charge(4)
    assert ledger.submitted.tolist() == [1, 1, 0, 3, 0]
    assert ledger.users_charged == 3
    assert ledger.charge(2) == 2


def test_what_is_read_of_a_ledger_does_not_change_it() -> None:
    ledger = agents(cap=1)
    ledger.charge(1)
    ledger.submitted[:] = 0
    ledger.state_dict()["submitted"][:] = 0
    with pytest.raises(LedgerError, match="cannot submit"):
        ledger.charge(1)


@pytest.mark.parametrize("agent", [0, -1, N_AGENTS + 1])
def test_an_agent_that_does_not_exist_is_refused(agent: int) -> None:
    ledger = agents()
    with pytest.raises(ValueError, match=r"agent must lie in 1\.\.5"):
        ledger.charge(agent)
    assert ledger.users_charged == 0


def test_a_ledger_for_nobody_is_refused() -> None:
    with pytest.raises(LedgerError, match="submissions must be at least 1, got 0"):
        agents(cap=0)
    with pytest.raises(LedgerError, match="n_agents must be at least 1, got 0"):
        SubmissionLedger("ldp", [laplace()], AGENTS, 0, 1)
    with pytest.raises(LedgerError, match="proves nothing"):
        SubmissionLedger("ldp", [], AGENTS, 1, 1)


def test_all_submissions_up_to_the_cap_are_proved_together() -> None:
    ledger = agents(cap=100, epsilon=0.1)
    assert ledger.pure_epsilon() == pytest.approx(10.0)
    # Four numbers of 0.1 / 4 each, a hundred times.
    assert ledger.epsilon(1e-6) == pytest.approx(composed_epsilon(1e-6, 400, 0.025), rel=1e-6)
    assert ledger.pure_epsilon_public_start() == 0.0


def certificate(ledger: SubmissionLedger, epsilon: float, adjacency: str = AGENTS.adjacency) -> Certificate:
    guarantee = Guarantee("ldp", epsilon, adjacency=adjacency)
    return certify(ledger, PrivacyRequest(guarantee, guarantee, "certified", "a test"), "x")


def test_the_certificate_tells_the_cap_and_the_scope() -> None:
    ledger = agents()
    for agent in (5, 5, 2):
        ledger.charge(agent)
    written = certificate(ledger, 3.0).to_dict()
    assert (written["users"], written["submissions"]) == (2, 3)
    assert (written["unit"], written["adjacency"], written["observer"]) == (
        AGENTS.unit, AGENTS.adjacency, AGENTS.observer,
    )  # fmt: skip
    assert (written["covered_channels"], written["excluded_channels"][0]) == (
        ["the agent's messages"], "who submits when",
    )  # fmt: skip
    assert written["proved"]["method"].endswith("attained by an agent with opposite gradients in every round")
    assert written["verdict"] == "holds"
    assert certificate(ledger, 2.9).verdict == "fails"


def test_a_claim_about_other_neighbours_than_the_scope_s_is_refused() -> None:
    with pytest.raises(LedgerError, match="neighbours: replace all of one agent's submissions"):
        certificate(agents(), 3.0, adjacency=nouns.ADJACENCY)


@pytest.mark.parametrize("trust_model", COUNTS)
def test_users_of_count_loops_submit_once(trust_model: TrustModel) -> None:
    ledger = Ledger(trust_model, [laplace()], COUNTS[trust_model])
    ledger.charge(1, 7)
    assert (ledger.submissions, ledger.users_charged, ledger.scope) == (1, 7, COUNTS[trust_model])
    with pytest.raises(LedgerError, match="user 7 cannot submit"):
        ledger.charge(7, 7)


def test_a_charge_is_journaled_before_it_counts_and_before_it_returns() -> None:
    seen: list[tuple[list[tuple[int, int]], list[int]]] = []
    journal = Notes(lambda pairs: seen.append((pairs, ledger.submitted.tolist())))
    ledger = agents(cap=2, journal=journal)
    assert journal.began == 0
    assert (ledger.charge(3), ledger.charge(3)) == (1, 2)
    assert seen == [([(3, 1)], [0] * 5), ([(3, 2)], [0, 0, 1, 0, 0])]
    assert journal.began == 1
    with pytest.raises(LedgerError):
        ledger.charge(3)
    with pytest.raises(ValueError, match="agent must lie"):
        ledger.charge(99)
    assert len(seen) == 2


def test_nothing_is_charged_if_the_journal_fails_and_the_next_attempt_has_the_same_number() -> None:
    failing = [True]

    def act(pairs: list[tuple[int, int]]) -> None:
        if failing[0]:
            raise OSError(f"no space for {pairs}")

    ledger = agents(journal=Notes(act))
    with pytest.raises(OSError, match=r"no space for \[\(2, 1\), \(3, 1\)\]"):
        ledger.charge_all([2, 3])
    assert ledger.users_charged == 0
    failing[0] = False
    assert ledger.charge(2) == 1


def test_charges_at_the_same_time_do_not_exceed_the_cap() -> None:
    # The journal waits where two charges could overtake each other.
    ledger = agents(journal=Notes(lambda pairs: sleep(0.002)))

    def attempt(agent: int) -> int:
        try:
            return ledger.charge(agent)
        except LedgerError:
            return 0

    with ThreadPoolExecutor(8) as pool:
        numbers = list(pool.map(attempt, [1] * 16))
    assert sorted(numbers) == [0] * 13 + [1, 2, 3]


def test_a_batch_is_charged_as_its_agents_one_after_the_other() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        batch = rng.integers(1, N_AGENTS + 1, size=rng.integers(0, 9))
        journals = Notes(), Notes()
        together, apart = (agents(cap=9, journal=journal) for journal in journals)
        for ledger in (together, apart):
            ledger.charge(2)
        assert together.charge_all(batch).tolist() == [apart.charge(int(agent)) for agent in batch]
        assert together.submitted.tolist() == apart.submitted.tolist()
        assert journals[0].lines == journals[1].lines


def test_a_batch_is_charged_as_a_whole_or_not_at_all() -> None:
    ledger = agents(cap=2, journal=(journal := Notes()))
    ledger.charge(4)
    with pytest.raises(LedgerError, match="agent 4 cannot submit: all of its 2 submissions are charged"):
        ledger.charge_all([1, 4, 2, 4])
    with pytest.raises(ValueError, match=r"agent must lie in 1\.\.5, got 6"):
        ledger.charge_all([1, 6])
    for wrong in ([[1]], [1.0], True):
        with pytest.raises(ValueError, match="agents must be whole numbers in one row"):
            ledger.charge_all(wrong)
    assert ledger.submitted.tolist() == [0, 0, 0, 1, 0]
    assert journal.lines == [(4, 1)]


def test_a_ledger_starts_from_its_journal() -> None:
    journal = Notes()
    first = agents(journal=journal)
    first.charge_all([2, 2, 5])
    state = first.state_dict()
    second = agents(journal=journal)
    assert second.submitted.tolist() == [0, 2, 0, 0, 1]
    # What somebody else writes before the first charge counts, too.
    journal.lines.append((1, 3))
    with pytest.raises(LedgerError, match="agent 1 cannot submit"):
        second.charge(1)
    third = agents(journal=journal)
    state["submitted"][3] = 2
    third.load_state_dict(state)
    assert third.submitted.tolist() == [3, 2, 0, 2, 1]


def test_a_state_continues_where_it_was() -> None:
    ledger = agents()
    for agent in (1, 1, 1, 4):
        ledger.charge(agent)
    resumed = agents()
    resumed.load_state_dict(ledger.state_dict())
    assert resumed.submitted.tolist() == [3, 0, 0, 1, 0]
    with pytest.raises(LedgerError, match="agent 1 cannot submit"):
        resumed.charge(1)
    assert resumed.charge(4) == 2
    with pytest.raises(LedgerError, match="2 agents are charged here already"):
        resumed.load_state_dict(ledger.state_dict())


def test_a_state_of_another_ledger_is_refused() -> None:
    others = {
        "cap": agents(cap=4),
        "noise": agents(epsilon=2.0),
        "scope": agents(scope=COUNTS["ldp"]),
        "trust model": SubmissionLedger("jdp", [laplace()], AGENTS, N_AGENTS, CAP),
    }
    for other in others.values():
        with pytest.raises(ValueError, match="the state is of other releases, neighbours or cap"):
            agents().load_state_dict(other.state_dict())
    with pytest.raises(ValueError, match="'submitted' is missing or of another shape"):
        agents().load_state_dict(SubmissionLedger("ldp", [laplace()], AGENTS, 4, CAP).state_dict())
    state = agents().state_dict()
    with pytest.raises(ValueError, match="'terms' is missing"):
        agents().load_state_dict({"submitted": state["submitted"]})
    for wrong in (-1, CAP + 1):
        with pytest.raises(ValueError, match=r"submitted must lie in 0\.\.3"):
            agents().load_state_dict(state | {"submitted": np.full(N_AGENTS, wrong)})


def test_a_ledger_of_submissions_cannot_be_copied() -> None:
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(LedgerError, match="cannot be copied or pickled"):
            attempt(agents())


def test_coins_are_accounted_exactly_over_all_submissions() -> None:
    release = Release("bits", RandomizedResponse(0.1), Sensitivity.of_cells(2), None, True, 1, 2, "os")
    ledger = SubmissionLedger("ldp", [release], AGENTS, N_AGENTS, 50)
    assert ledger.epsilon(1e-6) == pytest.approx(composed_epsilon(1e-6, 100, 0.1), rel=1e-6)
    assert ledger.pure_epsilon() == pytest.approx(10.0)
