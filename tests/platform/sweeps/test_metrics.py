"""A sweep of an algorithm that reports neither regret nor saturation shows what it reports, also beside others."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import pandas as pd
import pytest

from dprl.algorithms import ALGORITHMS, Metric, PrivateUCBVIConfig, TabularLearner
from dprl.algorithms.base import Releases
from dprl.envs import Env, FiniteMDP
from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.reports.tables import write_summary
from dprl.platform.sweeps.sweep import SweepOptions, SweepResult, run_sweep
from dprl.privacy import CountPrivacy, CountPrivatizer, Streams
from tests.platform.reports.cases import page_of, tables_of

EPISODES = 20


class Scorer:
    """A learner whose score is the number of episodes done before the block."""

    def __init__(self, learner: TabularLearner) -> None:
        self._learner = learner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._learner, name)

    def learn(self, n: int) -> dict[str, float]:
        before = self._learner.episodes_done
        self._learner.learn(n)
        return {"score": float(before)}


@dataclass(frozen=True)
class ScoringConfig:
    """An algorithm whose only metric is a score."""

    name: ClassVar[str] = "scoring"
    plays: ClassVar[type[Env]] = FiniteMDP
    metrics: ClassVar[tuple[Metric, ...]] = (Metric("score", "mean"),)
    releases: ClassVar[Releases] = "counts"
    unit: ClassVar[Literal["episode", "submission"]] = "episode"
    covered_by: ClassVar[str | None] = None
    rate: float = 0.5

    def privatizer(self, env: FiniteMDP, privacy: CountPrivacy, episodes: int, streams: Streams) -> CountPrivatizer:
        return PrivateUCBVIConfig().privatizer(env, privacy, episodes, streams)

    def build(self, env: FiniteMDP, privatizer: CountPrivatizer, episodes: int, streams: Streams) -> Any:
        return Scorer(PrivateUCBVIConfig().build(env, privatizer, episodes, streams))


@pytest.fixture(autouse=True)
def _registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the algorithm as a plugin would, because reports need registered algorithms."""
    monkeypatch.setitem(ALGORITHMS, ScoringConfig.name, ScoringConfig)


def cell(privacy: Mapping[str, Any]) -> Experiment:
    raw = {
        "name": "scored",
        "algorithm": {"name": "private_ucb_vi"},
        "env": {"name": "riverswim", "n_states": 3, "horizon": 4},
        "privacy": dict(privacy),
        "episodes": EPISODES,
        "seeds": 3,
    }
    return read_experiment(raw)


def scoring(privacy: Mapping[str, Any]) -> Experiment:
    return replace(cell(privacy), algorithm=ScoringConfig())


def run(home: Path, *cells: Experiment) -> SweepResult:
    options = SweepOptions("scored", home, "process", None, None, False, "dprl run scored.yaml")
    result = run_sweep(cells, options)
    assert result.failed == []
    return result


def table(summary: pd.DataFrame) -> list[str]:
    stream = io.StringIO()
    write_summary(stream, summary)
    return stream.getvalue().splitlines()


NONE, JDP = {"model": "none"}, {"model": "jdp", "epsilon": 1.0}


def test_it_is_marked_beside_an_algorithm_that_has_regret(tmp_path: Path) -> None:
    result = run(tmp_path, scoring(JDP), cell(JDP))
    assert {file.name for file in result.folder.glob("*.png")} == {"frontier.png", "curves.png"}
    header, scored, other, *_ = (line.split() for line in table(result.summary))
    assert header[:5] == ["cell", "regret", "+-95%", "regret/ep.", "halving"]
    assert scored[1:5] == ["-"] * 4
    assert "-" not in other
    *_, scores, regrets = tables_of(page_of(tmp_path, "scored"))
    assert "To half regret" in regrets[0]
    assert "To half regret" not in scores[0]


@pytest.mark.parametrize("over", ["sum", "mean"])
def test_a_median_is_of_the_last_value(over: Literal["sum", "mean"]) -> None:
    with pytest.raises(ValueError, match=f"across: must be mean with over '{over}', got 'median' for metric 'score'"):
        Metric("score", over, "steps", across="median")
