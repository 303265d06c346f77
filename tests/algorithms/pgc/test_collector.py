"""Collecting without Ray: any number of runners, losses, and the ledger of a run on disk."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dprl.algorithms.base import Float64Array
from dprl.algorithms.pgc.aggregator import Aggregator, Batch, Reply, report
from dprl.algorithms.pgc.collector import collect
from dprl.algorithms.pgc.journaled_privatizer import JOURNAL, JournaledPrivatizer, journal_folder
from dprl.algorithms.pgc_a3c.agent_batch import agent_batch
from dprl.algorithms.pgc_a3c.algorithm import PGCA3CConfig
from dprl.algorithms.pgc_a3c.on_rllib.algorithm import compiled_update
from dprl.envs import CartPoleGravity
from dprl.privacy import GradientPrivacy, LedgerError, Streams
from dprl.privacy.queries.gradients import GradientLayout
from dprl.privacy.randomness.streams import NoiseConfig

# Collecting without Ray: any number of runners, any order of replies, and losses.

STREAMS = Streams(3, "collecting")
ENV = CartPoleGravity().build()
TRUST = GradientPrivacy("ldp", 5.0)


class Pretended:
    """Simulated runners: replies arrive in arbitrary order, and some batches are lost."""

    def __init__(
        self, runners: list[Callable[[Batch], Reply]], order: random.Random, lost: Callable[[int], bool]
    ) -> None:
        self.runners, self.order, self.lost = runners, order, lost
        self.under_way: list[tuple[int, Batch]] = []
        self.leased: list[int] = []
        self.sizes: list[int] = []
        self.sent = self.gone = 0

    def free(self) -> dict[int, int]:
        busy = [runner for runner, _ in self.under_way]
        found = [r for r in range(len(self.runners)) if busy.count(r) < 2]
        return {runner: busy.count(runner) for runner in sorted(found, key=busy.count)}

    def send(self, runner: int, batch: Batch) -> None:
        self.under_way.append((runner, batch))
        self.leased += batch.lease.submissions.tolist()
        self.sizes.append(len(batch.slots))

    def outcomes(self) -> list[tuple[np.ndarray, Reply | None]]:
        if not self.under_way:
            return []
        runner, batch = self.under_way.pop(self.order.randrange(len(self.under_way)))
        self.sent += 1
        if self.lost(self.sent):
            self.gone += len(batch.slots)
            return [(batch.slots, None)]
        return [(batch.slots, self.runners[runner](batch))]

    def restore(self) -> list[int]:
        return []

    def abandon(self) -> None:
        self.under_way.clear()


class Run:
    """A run of the compiled lane with simulated runners."""

    def __init__(self, folder: Path, box: PGCA3CConfig, n: int, **options: Any) -> None:
        def build() -> Any:
            return TRUST.build(GradientLayout(112), n, STREAMS)

        self.box, self.journaled = box, JournaledPrivatizer(build, folder)
        first = box.initial_parameters(STREAMS)
        self.aggregator = Aggregator(box.rules, first, self.journaled.accept, self.tell)
        agents = [self.agents(lanes) for lanes in options.get("lanes", [8])]
        self.workers = Pretended(agents, random.Random(options.get("order", 0)), options.get("lost", lambda _: False))
        self.scores: list[float] = []
        self.agents_per_call = options.get("agents_per_call", 50)

    def until(self, goal: int) -> None:
        limits: dict[str, Any] = {"agents_per_call": self.agents_per_call, "losses": 3, "patience": 0.1}
        collect(self.aggregator, self.workers, self.journaled.lease, goal, **limits)

    def agents(self, lanes: int) -> Callable[[Batch], Reply]:
        update = compiled_update(self.box, agent_batch(lanes, ENV, STREAMS))
        client = self.journaled.privatizer.new_client()
        return lambda batch: report(update, batch, client, shows_scores=True)

    @property
    def lost(self) -> int:
        return int(self.journaled.privatizer.charged) - self.aggregator.applied

    def tell(self, scores: Float64Array) -> None:
        self.scores += scores.tolist()


def in_one_process(box: PGCA3CConfig, n: int) -> tuple[Float64Array, float]:
    """Return parameters and mean score of the learner without runners."""
    learner = box.build(ENV, TRUST.build(GradientLayout(112), n, STREAMS), n, STREAMS)
    mean = learner.learn(n)["score"]
    return learner.policy, mean


@pytest.mark.parametrize("staleness", [0, 8])
@pytest.mark.parametrize("buffer_size", [1, 100])
def test_any_number_of_runners_gives_the_bits_of_one_process(tmp_path: Path, staleness: int, buffer_size: int) -> None:
    box = PGCA3CConfig(staleness=staleness, buffer_size=buffer_size)
    expected, mean = in_one_process(box, 240)
    for i, (lanes, agents_per_call) in enumerate([([8], 50), ([1], 1), ([8, 3], 7), ([8, 8, 8], 200)]):
        run = Run(tmp_path / str(i), box, 240, lanes=lanes, agents_per_call=agents_per_call, order=i)
        for goal in (90, 91, 240):
            run.until(goal)
            assert run.aggregator.applied == goal
            assert not run.workers.under_way
        assert np.array_equal(run.aggregator.parameters, expected)
        assert len(run.scores) == 240
        assert np.mean(run.scores) == pytest.approx(mean)
        assert run.workers.leased == list(range(1, 241))


def test_batches_are_as_large_as_allowed_and_shared_among_runners(tmp_path: Path) -> None:
    box = PGCA3CConfig(staleness=0, buffer_size=40)
    alone, shared = Run(tmp_path / "1", box, 40, agents_per_call=30), Run(tmp_path / "2", box, 40, lanes=[8, 8])
    alone.until(40)
    shared.until(40)
    assert alone.workers.sizes[0] == 30
    assert shared.workers.sizes[0] == 20


def test_an_iteration_is_charged_in_few_lines_of_the_journal(tmp_path: Path) -> None:
    run = Run(tmp_path, PGCA3CConfig(), 500, lanes=[8, 8], agents_per_call=7)
    for goal in (10, 500):
        run.until(goal)
        assert run.lost == 0
    ranges = [line.split()[:2] for line in (tmp_path / JOURNAL).read_text().splitlines()[2:]]
    assert len(ranges) <= 1 + 3
    assert run.workers.leased == list(range(1, 501))


def test_a_lost_message_is_replaced_by_a_fresh_agent(tmp_path: Path) -> None:
    box = PGCA3CConfig()
    run = Run(tmp_path, box, 120, lanes=[8, 8], agents_per_call=4, lost=lambda sent: sent % 7 == 3)
    run.until(60)
    assert run.aggregator.applied == 60
    assert run.lost == run.workers.gone > 0
    assert run.workers.leased == list(range(1, 61 + run.lost))
    assert len(run.scores) == 60
    assert run.journaled.privatizer.certificate("pgc_a3c").proved_epsilon <= 5.0


def test_when_all_agents_are_asked_nobody_is_asked_twice(tmp_path: Path) -> None:
    run = Run(tmp_path, PGCA3CConfig(), 50, agents_per_call=5, lost=lambda sent: sent == 4)
    with pytest.raises(LedgerError, match="build for more submissions"):
        run.until(50)
    assert sorted(set(run.workers.leased)) == run.workers.leased


def test_runners_that_always_die_end_the_run(tmp_path: Path) -> None:
    run = Run(tmp_path, PGCA3CConfig(), 90, agents_per_call=5, lost=lambda _: True)
    with pytest.raises(RuntimeError, match=r"^4 batches in a row were lost with their runners"):
        run.until(50)


def test_without_runners_patience_ends(tmp_path: Path) -> None:
    run = Run(tmp_path, PGCA3CConfig(), 90, lanes=[])
    with pytest.raises(RuntimeError, match=r"^no runner has answered for 0.1 s"):
        run.until(50)


def test_after_an_error_what_was_under_way_is_lost(tmp_path: Path) -> None:
    def fails(sent: int) -> bool:
        if sent == 5:
            raise ValueError("made up")
        return False

    run = Run(tmp_path, PGCA3CConfig(), 200, lanes=[8, 8], agents_per_call=3, lost=fails)
    with pytest.raises(ValueError, match="made up"):
        run.until(60)
    run.until(60)
    assert run.aggregator.applied == 60
    assert run.lost > 0
    assert len(set(run.workers.leased)) == len(run.workers.leased)


# The ledger of a run: on disk before anyone is asked; a checkpoint without it can only evaluate.


@pytest.fixture
def books() -> Iterator[Any]:
    """Return a function that makes journaled privatizers of 100 submissions; they are closed afterwards."""
    made: list[JournaledPrivatizer] = []

    def make(folder: Path, n: int = 100, entropy: Any = "seed") -> JournaledPrivatizer:
        streams = Streams(0, "book", NoiseConfig(entropy=entropy))

        def build() -> Any:
            return GradientPrivacy("ldp", 1.0).build(GradientLayout(4), n, streams)

        made.append(JournaledPrivatizer(build, folder))
        return made[-1]

    yield make
    for book in made:
        book.close()


def test_nothing_is_made_before_the_first_lease(tmp_path: Path, books: Any) -> None:
    book = books(tmp_path / "deep" / "run")
    assert not (tmp_path / "deep").exists()
    book.lease(3)
    assert (tmp_path / "deep" / "run" / JOURNAL).stat().st_size > 0


def test_a_lease_is_on_disk_before_it_is_had(tmp_path: Path, books: Any) -> None:
    book = books(tmp_path)
    for k in (1, 5, 2):
        lease = book.lease(k)
        assert books(tmp_path).privatizer.charged == lease.last


@pytest.mark.parametrize("entropy", ["seed", "os"])
def test_a_resumed_run_goes_on_after_all_that_were_asked(tmp_path: Path, books: Any, entropy: str) -> None:
    book = books(tmp_path / "old", entropy=entropy)
    book.lease(10)
    entry = book.reference()
    book.lease(7)
    book.close()
    again = books(tmp_path / "new", entropy=entropy)
    again.resume(entry)
    assert again.lease(2).submissions.tolist() == [18, 19]
    assert not (tmp_path / "new").exists()


def test_a_checkpoint_leads_to_its_own_journal_whatever_is_in_the_folder(tmp_path: Path, books: Any) -> None:
    first, second = books(tmp_path / "A"), books(tmp_path / "B")
    first.lease(10)
    entry = first.reference()
    first.lease(30)
    second.lease(12)
    first.close()
    second.resume(entry)
    assert second.lease(2).first == 41
    second.close()
    (tmp_path / "A" / JOURNAL).unlink()
    third = books(tmp_path / "B")
    third.resume(entry)
    with pytest.raises(LedgerError, match=r"must hold the 10 submissions of the checkpoint, got 0: .*; restore it"):
        third.lease(1)
    assert not (tmp_path / "A" / JOURNAL).exists()
    books(tmp_path / "A").lease(20)
    fourth = books(tmp_path / "B")
    fourth.resume(entry)
    with pytest.raises(LedgerError, match="must be the one that this run began, got another one"):
        fourth.lease(1)
    # A checkpoint of a run that cannot train cannot train either.
    fifth = books(tmp_path / "C")
    fifth.resume(fourth.reference())
    with pytest.raises(LedgerError, match="must be the one that this run began, got another one"):
        fifth.lease(1)


@pytest.mark.parametrize("before", [0, 10])
def test_a_journal_is_found_where_it_was_and_where_the_trial_is_now(tmp_path: Path, books: Any, before: int) -> None:
    """A checkpoint continues after all later leases, also if it is from before the first one."""
    book = books(tmp_path / "old")
    if before:
        book.lease(before)
    entry = book.reference()
    book.lease(4)
    book.close()
    again = books(tmp_path / "new")
    again.resume(entry)
    assert again.lease(1).first == before + 5
    again.close()
    (tmp_path / "old").rename(tmp_path / "moved")
    moved = books(tmp_path / "moved")
    moved.resume(entry)
    assert moved.lease(1).first == before + 6


def trial(kind: str, path: str = "/storage/sweep/trial_7") -> Any:
    system = SimpleNamespace(type_name=kind)
    return SimpleNamespace(storage_filesystem=system, trial_fs_path=path, trial_dir_name="trial_7")


def test_where_ledgers_belong(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("DPRL_HOME", raising=False)
    monkeypatch.chdir(tmp_path)
    assert journal_folder("/kept", None) == Path("/kept")
    assert journal_folder("/kept", trial("local")) == Path("/kept/trial_7")
    assert journal_folder(None, trial("local")) == Path("/storage/sweep/trial_7")
    first, second = journal_folder(None, None), journal_folder(None, None)
    assert first != second
    assert first.parent == tmp_path / "dprl_runs" / "ledgers"
    monkeypatch.setenv("DPRL_HOME", "/home/of/runs")
    assert journal_folder(None, None).parent == Path("/home/of/runs/ledgers")


@pytest.mark.parametrize(
    ("folder", "storage", "message"),
    [
        ("runs/ledger", None, "^folder must be an absolute path, got 'runs/ledger'"),
        (None, "s3", r"^ledger must be on a file system that .*, got storage of type s3; call ledger\(folder"),
    ],
)
def test_where_ledgers_cannot_be(folder: str | None, storage: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        journal_folder(folder, None if storage is None else trial(storage))
