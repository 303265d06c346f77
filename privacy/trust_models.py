"""The configs of each trust model: they validate themselves, calibrate, and build the Privatizer they describe."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from dprl.privacy.accounting.closed_forms import laplace_scale
from dprl.privacy.base import CountFamilies, Guarantee, TrustModel
from dprl.privacy.certificate import PrivacyRequest
from dprl.privacy.counters.binary_tree import COUNTERS, BinaryTree, ExactCounter
from dprl.privacy.mechanisms.laplace import MECHANISMS, Laplace
from dprl.privacy.printed import CENTRAL_PRIVATIZER, LOCAL_PRIVATIZER, PrintedLemma
from dprl.privacy.privatizers import NoiseParts, Privatizer
from dprl.privacy.randomness.streams import Streams

_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-9, 1e9
_SMALLEST_DELTA = 1e-15

Calibration = Literal["certified", "printed"]
PrecisionRule = Literal["exact", "printed"]


class PrivacyConfig(Protocol):
    """What every trust model's config offers."""

    model: ClassVar[TrustModel]

    def build(self, families: CountFamilies, n_users: int, streams: Streams) -> Privatizer:
        """Return the privatizer for users 1..n_users."""


@dataclass(frozen=True)
class NoPrivacy:
    """No noise anywhere: the non-private algorithm, and an infinite epsilon on the certificate."""

    model: ClassVar[TrustModel] = "none"

    def build(self, families: CountFamilies, n_users: int, streams: Streams) -> Privatizer:
        """Return the privatizer that passes exact counts on."""
        _check_users(n_users)
        request = PrivacyRequest(None, None, "none", "nothing is claimed")
        return Privatizer(request, self.model, families, NoiseParts(None, ExactCounter(n_users), None), streams)


@dataclass(frozen=True)
class _Calibrated(ABC):
    """What the noisy trust models share: a budget, whose scale, whose error bound.

    A subclass says how many noisy numbers of a cell a user enters, and where the noise goes.
    """

    epsilon: float
    delta: float = 0.0
    calibration: Calibration = "certified"
    precision: PrecisionRule = "exact"
    model: ClassVar[TrustModel]
    lemma: ClassVar[PrintedLemma]

    def __post_init__(self) -> None:
        _check_budget(self.epsilon, self.delta)
        _check_choice("calibration", self.calibration, ["certified", "printed"])
        _check_choice("precision", self.precision, ["exact", "printed"])
        _check_printed_delta(self.calibration, self.delta)

    def build(self, families: CountFamilies, n_users: int, streams: Streams) -> Privatizer:
        """Return the privatizer for users 1..n_users (episodes 1..K-1: the last episode's data are never used)."""
        _check_users(n_users)
        source = "the requested guarantee, met by the certified scale"
        if self.calibration == "printed":
            scale, source = self.lemma.scale(families, n_users, self.epsilon), self.lemma.source
        else:
            noisy_numbers = len(families.families) * families.changed_cells() * self._nodes_per_user(n_users)
            scale = laplace_scale(self.epsilon, self.delta, noisy_numbers)
        guarantee = Guarantee(self.model, self.epsilon, self.delta)
        request = PrivacyRequest(guarantee, guarantee, self.calibration, source)
        return Privatizer(request, self.model, families, self._parts(scale, n_users), streams)

    @abstractmethod
    def _nodes_per_user(self, n_users: int) -> int:
        """Return how many noisy numbers of a cell a user enters at most."""

    @abstractmethod
    def _parts(self, scale: float, n_users: int) -> NoiseParts:
        """Return where noise of that scale goes."""

    def _printed_error(self) -> PrintedLemma | None:
        return self.lemma if self.precision == "printed" else None


@dataclass(frozen=True)
class CentralPrivacy(_Calibrated):
    """Joint differential privacy: a trusted server releases noisy running counts.

    *Formal guarantee.* `certified`: (epsilon, delta)-JDP under replacement of one user's trajectory, by the binary
    tree's guarantee and the billboard lemma: node scale 2 H F L / epsilon for delta = 0 (H steps, F families,
    L = ceil(log2 K)). `printed`: the paper's node scale, which proves only 2 L / log K * epsilon.

    Args:
        epsilon: in [1e-9, 1e9]. delta: 0 or in [1e-15, 1). counter: 'binary_tree'.
        calibration: whose scale. precision: whose error bound E.

    Paper: [CZ22] Lemma 3.
    """

    counter: str = BinaryTree.name
    model: ClassVar[TrustModel] = "jdp"
    lemma: ClassVar[PrintedLemma] = CENTRAL_PRIVATIZER

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice("counter", self.counter, list(COUNTERS))

    def _nodes_per_user(self, n_users: int) -> int:
        return COUNTERS[self.counter].nodes(n_users)

    def _parts(self, scale: float, n_users: int) -> NoiseParts:
        return NoiseParts(None, COUNTERS[self.counter](n_users, Laplace(scale)), self._printed_error())


@dataclass(frozen=True)
class LocalPrivacy(_Calibrated):
    """Local differential privacy: every user adds noise to their report before it leaves.

    *Formal guarantee.* `certified`: (epsilon, delta)-LDP for any two trajectories: report scale 2 H F / epsilon for
    delta = 0. `printed`: the paper's scale 3 H / epsilon, which is exactly 2 epsilon.

    Args:
        epsilon: in [1e-9, 1e9]. delta: 0 or in [1e-15, 1). mechanism: 'laplace'.
        calibration: whose scale. precision: whose error bound E.

    Paper: [CZ22] Lemma 4.
    """

    mechanism: str = Laplace.name
    model: ClassVar[TrustModel] = "ldp"
    lemma: ClassVar[PrintedLemma] = LOCAL_PRIVATIZER

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice("mechanism", self.mechanism, list(MECHANISMS))

    def _nodes_per_user(self, n_users: int) -> int:  # noqa: ARG002 - a report is one message, whatever their number
        return 1

    def _parts(self, scale: float, n_users: int) -> NoiseParts:
        return NoiseParts(MECHANISMS[self.mechanism](scale), ExactCounter(n_users), self._printed_error())


TRUST_MODELS: dict[str, type[PrivacyConfig]] = {
    NoPrivacy.model: NoPrivacy,
    CentralPrivacy.model: CentralPrivacy,
    LocalPrivacy.model: LocalPrivacy,
}


def _check_users(n_users: int) -> None:
    if n_users < 1:
        raise ValueError(f"n_users must be at least 1, got {n_users}; run at least 2 episodes")


def _check_budget(epsilon: float, delta: float) -> None:
    if not _is_number(epsilon):
        raise ValueError(f"epsilon must be a number above 0, got {epsilon!r}; for no privacy write model: none")
    if not 0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be finite and above 0, got {epsilon!r}; for no privacy write model: none")
    if not _SMALLEST_EPSILON <= epsilon <= _LARGEST_EPSILON:
        raise ValueError(f"epsilon must lie between 1e-9 and 1e9, got {epsilon!r}; beyond that nothing can be computed")
    if not (_is_number(delta) and (delta == 0 or _SMALLEST_DELTA <= delta < 1)):
        raise ValueError(f"delta must be 0 or lie in [1e-15, 1), got {delta!r}; 0 asks for pure differential privacy")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_printed_delta(calibration: str, delta: float) -> None:
    if calibration == "printed" and delta > 0:
        raise ValueError(f"delta must be 0 with the printed calibration, got {delta!r}; use calibration: certified")


def _check_choice(key: str, value: object, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValueError(f"{key} must be one of {', '.join(choices)}, got {value!r}; choose one of them")
