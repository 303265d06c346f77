"""A minimal algorithm whose agents send gradients and that reports scores."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from dprl.algorithms import Metric
from dprl.algorithms.base import Releases
from dprl.envs import CartPoleGravity, Env
from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.privacy import Certificate, GradientPrivatizer, Streams
from dprl.privacy.queries.gradients import GradientLayout

DIMENSION = 7 * 3
LDP: dict[str, Any] = {"model": "ldp", "epsilon": 5.0, "mechanism": "privunit"}
SIGNS: dict[str, Any] = {"model": "ldp", "epsilon": 2.0, "mechanism": "projected_random_sign"}
NONE: dict[str, Any] = {"model": "none"}
METRICS = (
    Metric("score", "mean", "steps", better="high", headline=True, definition="steps of an agent's episode"),
    Metric("final_score", "last", "steps", of="output", better="high", short="final"),
    Metric("first_success", "last", "episodes", short="first", across="median"),
    Metric("success", "last", short="success", better="high"),
    Metric("drift", "last"),
)


class Walker:
    """Parameters that move by the estimated gradients; the score grows by one with every submission.

    The first success is at submission 10, but never for an even seed.
    """

    theorem = None
    derived: ClassVar[Mapping[str, float]] = {}

    def __init__(self, privatizer: GradientPrivatizer, seed: int) -> None:
        self.privatizer = privatizer
        self.episodes_done = 0
        self._senders = privatizer.new_client()
        self._parameters = np.random.default_rng(seed).normal(size=DIMENSION)
        self._lucky = seed % 2 == 1

    @property
    def policies(self) -> dict[str, np.ndarray]:
        return {"policy": self._parameters.copy()}

    def certificate(self) -> Certificate:
        return self.privatizer.certificate(WalkingConfig.name)

    def learn(self, n: int) -> dict[str, float]:
        before = self.episodes_done
        sent = self._senders.send(self.privatizer.lease(n), np.full((n, DIMENSION), 0.1))
        self._parameters += 0.01 * self.privatizer.accept(sent).mean(axis=0)
        self.episodes_done += n
        successful = self._lucky and self.episodes_done >= 10
        return {
            "score": before + (n + 1) / 2,
            "final_score": float(self.episodes_done),
            "first_success": 10.0 if successful else math.inf,
            "success": float(successful),
            "drift": 1.0,
        }

    def state_dict(self) -> dict[str, np.ndarray]:
        own = {"parameters": self._parameters.copy(), "done": np.array(self.episodes_done)}
        return own | {f"privatizer.{key}": value for key, value in self.privatizer.state_dict().items()}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        self._parameters[:] = state["parameters"]
        self.episodes_done = int(state["done"])
        inner = {
            key.removeprefix("privatizer."): value for key, value in state.items() if key.startswith("privatizer.")
        }
        self.privatizer.load_state_dict(inner)


@dataclass(frozen=True)
class WalkingConfig:
    """An algorithm that walks."""

    name: ClassVar[str] = "walking"
    plays: ClassVar[type[Env]] = CartPoleGravity
    metrics: ClassVar[tuple[Metric, ...]] = METRICS
    releases: ClassVar[Releases] = "gradients"
    unit: ClassVar[Literal["episode", "submission"]] = "submission"
    covered_by: ClassVar[str | None] = None
    rate: float = 0.5

    def privatizer(self, env: CartPoleGravity, privacy: Any, episodes: int, streams: Streams) -> GradientPrivatizer:
        made: GradientPrivatizer = privacy.build(GradientLayout(DIMENSION), episodes, streams)
        return made

    def build(self, env: CartPoleGravity, privatizer: GradientPrivatizer, episodes: int, streams: Streams) -> Walker:
        return Walker(privatizer, streams.seed)


def raw(privacy: Mapping[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "name": "walked",
        "algorithm": {"name": "walking"},
        "env": {"name": "cartpole_gravity"},
        "privacy": dict(privacy),
        "episodes": 20,
        "seeds": 3,
        **changes,
    }


def cell(privacy: Mapping[str, Any], **changes: Any) -> Experiment:
    return read_experiment(raw(privacy, **changes))
