"""What learners have in common whose users send one message each, in order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import numpy as np

from dprl.algorithms.base import Float64Array, Segment
from dprl.algorithms.resuming import ResumableLearner
from dprl.privacy import Certificate, Privatizer


class SubmittingLearner(ResumableLearner):
    """A learner for K = `episodes` users, of whom the last sends nothing: no later policy could use it.

    *Formal guarantee.* The privatizer's: what a subclass plans is a function of messages that its ledger charged.

    Args:
        name: of the algorithm, for the certificate. privatizer: of users 1..K-1.
        identity: what a state is a state of, in words and arrays: settings, environment and streams.
    """

    def __init__(
        self, name: str, privatizer: Privatizer[Any], episodes: int, identity: tuple[str, tuple[np.ndarray, ...]]
    ) -> None:
        if episodes < 2:
            raise ValueError(f"episodes must be at least 2, got {episodes}; the second is the first that can learn")
        if privatizer.n_users < episodes - 1:
            raise ValueError(
                f"the privatizer must be built for {episodes - 1} users, got {privatizer.n_users}; use "
                "config.privatizer"
            )
        super().__init__(episodes, privatizer, (f"{name} {identity[0]}", identity[1]))
        self.name = name
        self.theorem: str | None = None
        self._submitting = privatizer

    @property
    @abstractmethod
    def policy(self) -> Float64Array:
        """The chances [H, S, n, A] with which agents take their actions, as deployed last; a copy."""

    @property
    def policies(self) -> dict[str, np.ndarray]:
        """What a finished run leaves: 'policy'."""
        return {"policy": self.policy}

    @property
    def derived(self) -> Mapping[str, float]:
        """Numbers that the settings leave to the noise and the sizes of the run, by name."""
        return {}

    @abstractmethod
    def _run(self, first: int, last: int) -> dict[str, float]:
        """Run episodes first..last, whose users are charged; return the metrics of the stretch."""

    def certificate(self) -> Certificate:
        """Return what the noise that ran proves of the users charged so far."""
        return self._submitting.certificate(self.name)

    def learn(self, n: int) -> Segment:
        """Run the next n episodes, compiled; raise ValueError beyond the number this learner was built for."""
        first, last = self._stretch(n)
        if first < self.episodes:
            self._submitting.charge(first, min(last, self.episodes - 1))
        metrics = self._run(first, last)
        self.episodes_done = last
        return Segment(n, metrics)
