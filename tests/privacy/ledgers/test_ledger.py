"""Ledgers: the proof of every mechanism, agents that submit in order up to a cap, and sets of submissions."""

from __future__ import annotations

import copy
import dataclasses
import json
import math
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise
from time import sleep
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dprl.privacy import Certificate, LedgerError, NoiseDesign
from dprl.privacy import base as nouns
from dprl.privacy.base import Guarantee, Sensitivity
from dprl.privacy.certificate import certify
from dprl.privacy.ledger import Ledger
from dprl.privacy.mechanisms import ENCODINGS, GRAMS, VECTORS, MessageMechanism
from dprl.privacy.mechanisms.gram import GramLaplace, GramRelease
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.messages import RangeSet
from dprl.privacy.noise_design import Release
from dprl.privacy.threat_models import THREAT_MODELS, ThreatModel
from tests.privacy.laplace_losses import of_laplace_losses
from tests.privacy.ledgers.cases import AGENTS, CAP, N_AGENTS, Notes, agents, laplace

# Ledgers: the proof of every mechanism, and agents that submit in order up to a cap.

UNCALIBRATED = ("gram_uniform", "gram_bounded_laplace")
MESSAGES: dict[str, Any] = {name: kind for name, kind in (VECTORS | GRAMS).items() if name not in UNCALIBRATED}
SHAPES: dict[str, dict[str, Any]] = {
    **{name: {"dimension": 6, "clip": 2.0} for name in VECTORS},
    "privunit": {"dimension": 6},
    **{name: {"release": GramRelease.of_horizon(4, 3, 2)} for name in GRAMS},
}
"""Settings that each message mechanism needs besides its guarantee."""
PURE = sorted(set(MESSAGES) - {"clipped_gaussian", "gram_gaussian"})
GUARANTEES = [*((name, 0.0) for name in PURE), *((name, 1e-5) for name in sorted(MESSAGES))]


def calibrated(name: str, epsilon: float, delta: float, **options: Any) -> MessageMechanism:
    found: MessageMechanism = MESSAGES[name].calibrated(epsilon, delta, **SHAPES[name], **options)
    return found


def verdict_of(release: Release, epsilon: float, delta: float) -> Certificate:
    guarantee = Guarantee("ldp", epsilon, delta)
    design: NoiseDesign[Any] = NoiseDesign("ldp", (release,), THREAT_MODELS["counts", "ldp"], 1, claimed=guarantee)
    return certify(Ledger(design), "x")


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("name", "delta"), GUARANTEES)
def test_messages_meet_the_guarantee_that_they_are_calibrated_for(name: str, delta: float, exact: bool) -> None:
    mechanism = calibrated(name, 1.0, delta, **({"exact": exact} if name.startswith("clipped") else {}))
    release = Release("gradients", mechanism, None, attainable=False, cells=6, entropy="os")
    found = verdict_of(release, 1.0, delta)
    assert found.verdict == "holds"
    assert verdict_of(release, 0.5, delta).verdict in {"fails", "holds_approximately"}
    assert found.tightness == ("upper" if found.pure_epsilon < math.inf else None)
    written = found.to_dict()
    assert json.loads(json.dumps(written, allow_nan=False)) == written
    assert written["noise"][0]["parameters"]


@pytest.mark.parametrize(("name", "delta"), GUARANTEES)
def test_three_submissions_of_messages_cost_at_most_three_times_as_much(name: str, delta: float) -> None:
    release = Release("gradients", calibrated(name, 1.0, delta), None, attainable=False, cells=6, entropy="os")
    ledger = Ledger(NoiseDesign("ldp", (release,), AGENTS, N_AGENTS, 3))
    assert ledger.curve.pure_epsilon == pytest.approx(3 * release.curve().pure_epsilon)
    assert 1.0 < ledger.epsilon(3 * delta) <= 3.0 * (1 + 1e-9)


def test_one_submission_of_a_gram_is_an_episode_of_all_agents() -> None:
    one, two = (GramLaplace(GramRelease.of_horizon(4, 3, agents), (40.0, 30.0, 20.0, 0.0)) for agents in (1, 2))
    proved = [Release("gram", gram, None, False, 9, "os").curve().pure_epsilon for gram in (one, two)]
    assert proved[1] == pytest.approx(2 * proved[0])


def test_the_caller_says_whether_a_message_attains_its_bound() -> None:
    mechanism = calibrated("clipped_laplace", 1.0, 0.0)
    for attainable, tightness in ((True, "exact"), (False, "upper")):
        release = Release("gradients", mechanism, None, attainable, 6, "os")
        assert verdict_of(release, 1.0, 0.0).tightness == tightness


@pytest.mark.parametrize("delta", [0.0, 1e-5])
@pytest.mark.parametrize("name", ENCODINGS)
def test_coins_in_place_of_bits_meet_the_guarantee(name: str, delta: float) -> None:
    changed = Sensitivity.of_cells(2)
    mechanism = ENCODINGS[name].calibrated(1.0, delta, 40)
    release = Release("bits", mechanism, changed, True, 40, "os")
    found = verdict_of(release, 1.0, delta)
    assert found.verdict == "holds"
    assert verdict_of(release, 0.5, delta).verdict in {"fails", "holds_approximately"}
    noise = found.to_dict()["noise"][0]
    assert (noise["mechanism"], noise["arithmetic"]) == (name, "integer")
    assert noise["parameters"] == dataclasses.asdict(mechanism)
    assert noise["parameters"]["epsilon"] == mechanism.epsilon


def test_parameters_are_the_numbers_of_a_mechanism_and_of_its_parts() -> None:
    sign = calibrated("projected_random_sign", 6.0, 0.0)
    gram = GramLaplace(GramRelease(2, (3.0, 0.0), 4), (5.0, 0.0))
    written = [
        verdict_of(Release("x", mechanism, None, False, 5, "os"), 9.0, 0.0).to_dict()["noise"][0]
        for mechanism in (sign, gram)
    ]
    assert written[0]["parameters"] == {"dimension": 6, "projections": 2, "clip": 2.0, "bit.epsilon": 3.0}
    assert written[1]["parameters"] == {
        "release.dimension": 2, "release.bounds": [3.0, 0.0], "release.n_messages": 4, "release.clipped": True,
        "scales": [5.0, 0.0],
    }  # fmt: skip


def test_a_message_has_no_sensitivity_beside_its_own_and_noise_on_cells_needs_one() -> None:
    with pytest.raises(LedgerError, match="unless its mechanism bounds it itself"):
        Release("x", calibrated("privunit", 1.0, 0.0), Sensitivity.of_cells(1), False, 6, "os")
    with pytest.raises(LedgerError, match="unless its mechanism bounds it itself"):
        Release("x", Laplace(1.0), None, False, 6, "os")


def test_submissions_are_charged_in_order_and_up_to_the_cap() -> None:
    ledger = agents()
    ledger.charge(1, 2)
    ledger.charge(3, 9)
    assert (ledger.charged, ledger.users_charged) == (9, 5)
    for first, last in ((9, 9), (3, 12), (11, 12), (10, 9)):
        with pytest.raises(LedgerError, match=f"submission {first} cannot be charged: those up to 9"):
            ledger.charge(first, last)
    with pytest.raises(ValueError, match="at most 15 submissions can be charged, got 16; build for more episodes"):
        ledger.charge(10, 16)
    ledger.charge(10, 15)
    assert (ledger.charged, ledger.users_charged) == (15, 5)


def test_a_ledger_of_many_agents_takes_no_memory_for_each() -> None:
    ledger = Ledger(NoiseDesign("ldp", (laplace(),), AGENTS, 10**12, 2))
    ledger.charge(1, 10**12 + 7)
    assert (ledger.users_charged, ledger.charged) == (10**12, 10**12 + 7)


def test_a_ledger_for_nobody_is_refused() -> None:
    with pytest.raises(LedgerError, match="submissions must be at least 1, got 0"):
        agents(cap=0)
    with pytest.raises(ValueError, match="n_users must be at least 1, got 0"):
        NoiseDesign("ldp", (laplace(),), AGENTS, 0)
    with pytest.raises(LedgerError, match="proves nothing"):
        NoiseDesign("ldp", (), AGENTS, 1)


def test_all_submissions_up_to_the_cap_are_proved_together() -> None:
    ledger = agents(cap=100, epsilon=0.1)
    assert ledger.curve.pure_epsilon == pytest.approx(10.0)
    # Four numbers of 0.1 / 4 each, a hundred times.
    assert ledger.epsilon(1e-6) == pytest.approx(of_laplace_losses(400, 0.025, 1e-6), rel=1e-4)


def test_a_user_is_charged_for_all_releases_of_the_worst_run_of_disjoint_users() -> None:
    cheap, dear = (Release("x", Laplace(scale), Sensitivity.of_cells(4), True, 8, "os") for scale in (4.0, 2.0))
    ledger = Ledger(NoiseDesign("ldp", (cheap, cheap, dear, cheap), AGENTS, N_AGENTS, 3, groups=((0, 1), (2, 3))))
    assert ledger.curve.pure_epsilon == pytest.approx(3 * (2.0 + 1.0))


def certificate(ledger: Ledger, epsilon: float, adjacency: str = AGENTS.adjacency) -> Certificate:
    guarantee = Guarantee("ldp", epsilon, adjacency=adjacency)
    charges = [*ledger.charged_before, ledger.charged]
    return certify(Ledger(replace(ledger.design, claimed=guarantee), charges=charges), "x")


def test_the_certificate_tells_the_cap_and_the_threat_model() -> None:
    ledger = agents()
    ledger.charge(1, 2)
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


def test_a_claim_about_other_neighbours_is_refused() -> None:
    with pytest.raises(LedgerError, match="replace all of one agent's submissions"):
        certificate(agents(), 3.0, adjacency=nouns.ADJACENCY)


def test_a_charge_is_journaled_before_it_counts_and_before_it_returns() -> None:
    seen: list[tuple[int, int, int]] = []
    journal = Notes(lambda first, last: seen.append((first, last, ledger.charged)))
    ledger = agents(cap=2, journal=journal)
    assert journal.began == 0
    ledger.charge(1, 3)
    ledger.charge(4, 10)
    assert seen == [(1, 3, 0), (4, 10, 3)]
    assert journal.began == 1
    with pytest.raises(LedgerError):
        ledger.charge(10, 10)
    with pytest.raises(ValueError, match="build for more episodes"):
        ledger.charge(11, 11)
    assert len(seen) == 2


def test_nothing_is_charged_if_the_journal_fails_and_the_next_attempt_has_the_same_number() -> None:
    failing = [True]

    def act(first: int, last: int) -> None:
        if failing[0]:
            raise OSError(f"no space for {first}..{last}")

    ledger = agents(journal=Notes(act))
    with pytest.raises(OSError, match=r"no space for 1\.\.3"):
        ledger.charge(1, 3)
    assert ledger.users_charged == 0
    failing[0] = False
    ledger.charge(1, 3)
    assert ledger.users_charged == 3


def test_of_charges_at_the_same_time_one_is_first() -> None:
    # The journal waits here, so that two charges could overlap.
    ledger = agents(journal=Notes(lambda first, last: sleep(0.002)))

    def attempt(last: int) -> int:
        try:
            ledger.charge(1, last)
        except LedgerError:
            return 0
        return last

    with ThreadPoolExecutor(8) as pool:
        charged = [last for last in pool.map(attempt, range(1, 15)) if last]
    assert charged == [ledger.charged]


def test_a_ledger_starts_from_its_journal() -> None:
    journal = Notes()
    agents(journal=journal).charge(1, 7)
    second = agents(journal=journal)
    assert second.charged == 7
    # Charges that another run writes before our first charge count, too.
    journal.attempts[-1] = 9
    with pytest.raises(LedgerError, match="submission 8 cannot be charged: those up to 9"):
        second.charge(8, 8)
    second.charge(10, 10)
    assert journal.attempts == [10]
    journal.attempts = [16]
    with pytest.raises(LedgerError, match="the journal or certificate has 16 submissions of 15"):
        agents(journal=journal)


def test_attempts_that_ask_users_again_compose() -> None:
    """Three attempts charged 4, 0 and 2 users: two users took part twice in the releases."""
    journal = Notes()
    journal.attempts = [4, 0, 2]
    ledger, once = agents(cap=1, journal=journal), agents(cap=1)
    assert (ledger.attempts, ledger.users_asked_again, ledger.users_charged, ledger.charged) == (2, 2, 4, 2)
    assert ledger.curve.pure_epsilon == pytest.approx(2.0 * once.curve.pure_epsilon)
    assert ledger.epsilon(1e-6) == pytest.approx(agents(cap=2).epsilon(1e-6))
    found = certificate(ledger, 1.0)
    assert (found.verdict, found.attempts, found.users_asked_again) == ("fails", 2, 2)
    ledger.charge(3, 5)
    assert (ledger.users_charged, ledger.users_asked_again) == (5, 4)
    assert certificate(once, 1.0).to_dict()["attempts"] == 1
    assert certificate(once, 1.0).to_dict()["users_asked_again"] == 0


@pytest.mark.parametrize("cap", [1, 2, 3])
def test_attempts_compose_with_all_submissions_of_each(cap: int) -> None:
    journal = Notes()
    journal.attempts = [N_AGENTS * cap, 1]
    ledger = agents(cap=cap, journal=journal)
    assert ledger.attempts == 2
    assert ledger.curve.pure_epsilon == pytest.approx(2 * cap * agents(cap=1).curve.pure_epsilon)
    assert ledger.delta(1.5) == pytest.approx(agents(cap=2 * cap).delta(1.5))


def test_releases_in_a_journal_are_distinguished_by_what_they_are() -> None:
    """Another epsilon, cap, number of users or trust model needs another journal; other wording does not."""
    own = agents().design
    reworded = ThreatModel("an agent", AGENTS.adjacency, "all", ("messages",), ("time",), "anybody")
    assert agents(threats=reworded).design.terms == own.terms
    others = [agents(epsilon=2.0).design, agents(cap=2).design, agents(threats=THREAT_MODELS["counts", "ldp"]).design]
    others += [
        NoiseDesign("jdp", own.releases, AGENTS, N_AGENTS, CAP),
        NoiseDesign("ldp", own.releases, AGENTS, 6, CAP),
    ]
    assert len({own.terms, *(other.terms for other in others)}) == 1 + len(others)


def test_a_ledger_cannot_be_copied() -> None:
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(LedgerError, match="cannot be copied or pickled"):
            attempt(agents())


# In any order of calls, every submission is charged exactly once, and the journal has all charges.

MOST = N_AGENTS * CAP
CALLS = st.lists(st.tuples(st.integers(-1, MOST + 2), st.integers(-1, 8)), max_size=12)


@given(CALLS)
def test_a_ledger_is_the_set_of_submissions_that_the_rules_allow(calls: list[tuple[int, int]]) -> None:
    journal, charged = Notes(), 0
    ledger = agents(journal=journal)
    for first, more in calls:
        last = first + more
        allowed = charged + 1 == first <= last <= MOST
        try:
            ledger.charge(first, last)
        except (LedgerError, ValueError):
            assert not allowed
        else:
            assert allowed
            charged = last
        assert (ledger.charged, ledger.users_charged) == (charged, min(charged, N_AGENTS))
        assert (journal.attempts or [0])[-1] == charged
    assert agents(journal=journal).charged == charged


# A set of ranges is the set of its numbers.

SPANS = st.lists(st.tuples(st.integers(1, 30), st.integers(-1, 6)), max_size=12)


def built(spans: list[tuple[int, int]]) -> tuple[RangeSet, set[int]]:
    ranges, numbers = RangeSet(), set()
    for first, length in spans:
        ranges.add(first, first + length)
        numbers |= set(range(first, first + length + 1))
    return ranges, numbers


@given(SPANS, st.integers(1, 40), st.integers(0, 8))
def test_it_holds_what_was_added(spans: list[tuple[int, int]], first: int, length: int) -> None:
    ranges, numbers = built(spans)
    asked = range(first, first + length)
    assert [n for start, stop in ranges.to_array() for n in range(start, stop + 1)] == sorted(numbers)
    assert ranges.last == max(numbers, default=0)
    assert ranges.first_common(first, first + length - 1) == min(numbers & set(asked), default=None)


@given(SPANS)
def test_ranges_that_touch_are_one(spans: list[tuple[int, int]]) -> None:
    ranges = built(spans)[0].to_array().tolist()
    assert all(stop + 1 < start for (_, stop), (start, _) in pairwise(ranges))
