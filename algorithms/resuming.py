"""What learners that the platform runs have in common: stretches of episodes, saving, and resuming bit for bit."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from dprl.privacy.checkpoints import check_arrays, digest_of, part_of

_PRIVATIZER, _DONE, _DIGEST, _IDENTITY, _SEAL = "privatizer.", "episodes_done", "digest", "identity.", "seal"


class Submissions(Protocol):
    """What a learner's messages come through; it has a state, and knows how many of them a state has charged."""

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return all that changes in a run."""

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue from `state_dict`."""

    def charged_in(self, state: Mapping[str, np.ndarray]) -> int:
        """Return how many messages a state has charged; checks nothing else."""


class ResumableLearner(ABC):
    """A learner of K = `episodes` episodes that is run in stretches, and can be written down between two of them.

    Every draw is keyed by its episode, so a state needs no generator. It is a state of one run: settings, environment
    and streams are sealed in it, since under others the noise of a prefix would hide other users' data, too.

    Args:
        episodes: K. submissions: the privatizer.
        identity: what a state is a state of, in words and arrays: settings, environment and streams.
    """

    def __init__(self, episodes: int, submissions: Submissions, identity: tuple[str, tuple[np.ndarray, ...]]) -> None:
        self.episodes = episodes
        self.episodes_done = 0
        self._submissions = submissions
        self._identity = identity

    @abstractmethod
    def _arrays(self) -> dict[str, np.ndarray]:
        """Return what changes in a run and is not made anew in each episode; a resumed run writes into it."""

    def _charged_after(self, done: int) -> int:
        """Return how many messages are charged after `done` episodes: the last could serve no later policy."""
        return min(done, self.episodes - 1)

    def _stretch(self, n: int) -> tuple[int, int]:
        """Return the next n episodes, first and last (inclusive); raise ValueError beyond the last of all."""
        first, last = self.episodes_done + 1, self.episodes_done + n
        if n < 1 or last > self.episodes:
            raise ValueError(f"n must be in 1..{self.episodes - self.episodes_done}, got {n}; build for more episodes")
        return first, last

    def state_dict(self) -> dict[str, np.ndarray]:
        """Return all that changes, as arrays."""
        own = {name: array.copy() for name, array in self._arrays().items()}
        own[_DONE] = np.array(self.episodes_done)
        messages = {_PRIVATIZER + name: array for name, array in self._submissions.state_dict().items()}
        return messages | own | {_DIGEST: self._digest(own, messages[_PRIVATIZER + _DIGEST])}

    def load_state_dict(self, state: dict[str, np.ndarray]) -> None:
        """Continue from `state_dict`, bit for bit. Raises ValueError for the state of another run."""
        own = self._arrays()
        check_arrays(state, own)
        mine = {name: state[name] for name in (*own, _DONE) if name in state}
        messages = part_of(state, _PRIVATIZER)
        seal = messages.get(_DIGEST, np.zeros(0))
        if not np.array_equal(state.get(_DIGEST, np.zeros(0)), self._digest(mine, seal)):
            raise ValueError("the state must be that of the same settings, environment and seed, unchanged; start anew")
        done = int(state[_DONE])
        # Before it is loaded: a privatizer that has charged messages takes no other state.
        if self._submissions.charged_in(messages) != self._charged_after(done):
            raise ValueError("the state's episodes are not those that its ledger has charged; start anew")
        self._submissions.load_state_dict(messages)
        for name, array in own.items():
            array[...] = state[name]
        self.episodes_done = done

    def _digest(self, own: Mapping[str, np.ndarray], seal: np.ndarray) -> np.ndarray:
        """Return a digest uint8[64] of what a state is a state of, of its own arrays, and of the messages' seal."""
        words, arrays = self._identity
        what = {f"{_IDENTITY}{place}": array for place, array in enumerate(arrays)}
        return digest_of(f"{words} {self.episodes}", dict(own) | {_SEAL: seal} | what)
