"""What learners have in common whose users send one message each, in order: stretches, saving and resuming."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np

from dprl.algorithms.base import Float64Array, Segment
from dprl.privacy import Certificate
from dprl.privacy.states import check_arrays, part_of
from dprl.privacy.submitting import SubmittingUsers

_PRIVATIZER, _DONE, _DIGEST = "privatizer.", "episodes_done", "digest"


class SubmittingLearner(ABC):
    """A learner for K = `episodes` users, of whom the last sends nothing: no later policy could use it.

    *Formal guarantee.* The privatizer's: what a subclass plans is a function of messages that its ledger charged.

    Args:
        name: of the algorithm, for the certificate. privatizer: of users 1..K-1.
        identity: what a state is a state of, in words and arrays: settings, environment and streams.
    """

    def __init__(
        self, name: str, privatizer: SubmittingUsers, episodes: int, identity: tuple[str, tuple[np.ndarray, ...]]
    ) -> None:
        if episodes < 2:
            raise ValueError(f"episodes must be at least 2, got {episodes}; the second is the first that can learn")
        if privatizer.n_users < episodes - 1:
            raise ValueError(
                f"the privatizer must be built for {episodes - 1} users, got {privatizer.n_users}; use "
                "config.privatizer"
            )
        self.name = name
        self.episodes = episodes
        self.episodes_done = 0
        self.theorem: str | None = None
        self._submitting = privatizer
        self._identity = identity

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

    @abstractmethod
    def _arrays(self) -> dict[str, np.ndarray]:
        """Return what changes in a run and is not made anew in each episode; a resumed run writes into it."""

    def certificate(self) -> Certificate:
        """Return what the noise that ran proves of the users charged so far."""
        return self._submitting.certificate(self.name)

    def learn(self, n: int) -> Segment:
        """Run the next n episodes, compiled; raise ValueError beyond the number this learner was built for."""
        first, last = self.episodes_done + 1, self.episodes_done + n
        if n < 1 or last > self.episodes:
            raise ValueError(f"n must be in 1..{self.episodes - self.episodes_done}, got {n}; build for more episodes")
        if first < self.episodes:
            self._submitting.charge(first, min(last, self.episodes - 1))
        metrics = self._run(first, last)
        self.episodes_done = last
        return Segment(n, metrics)

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return all that changes; every draw is keyed by its episode, so there is no generator state."""
        own = {name: array.copy() for name, array in self._arrays().items()}
        own[_DONE] = np.array(self.episodes_done)
        state = {_PRIVATIZER + key: value for key, value in self._submitting.state_dict().items()}
        return state | own | {_DIGEST: self._digest(own)}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue from `state_dict`, bit for bit. Raises ValueError for the state of another run."""
        own = self._arrays()
        check_arrays(state, own)
        mine = {name: state[name] for name in (*own, _DONE) if name in state}
        if not np.array_equal(state.get(_DIGEST, np.zeros(0)), self._digest(mine)):
            raise ValueError("the state must be that of the same settings, environment and seed, unchanged; start anew")
        done, privatizers = int(state[_DONE]), part_of(state, _PRIVATIZER)
        # Before it is loaded: a privatizer that has charged users takes no other state.
        if self._submitting.charged_in(privatizers) != min(done, self.episodes - 1):
            raise ValueError("the state's episodes are not those that its ledger has charged; start anew")
        self._submitting.load_state_dict(privatizers)
        for name, array in own.items():
            array[...] = state[name]
        self.episodes_done = done

    def _digest(self, own: dict[str, np.ndarray]) -> np.ndarray:
        """Return SHA-256 of what a state is a state of, and of the state, uint8[32]."""
        words, arrays = self._identity
        digest = hashlib.sha256(f"{self.name} {self.episodes} {words}".encode())
        for array in arrays:
            digest.update(f"{array.dtype.str}{array.shape}".encode() + array.tobytes())
        for name in sorted(own):
            array = np.asarray(own[name])
            digest.update(f"{name}{array.dtype.str}{array.shape}".encode() + array.tobytes())
        return np.frombuffer(digest.digest(), dtype=np.uint8)
