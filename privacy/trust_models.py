"""The settings of each trust model: they validate themselves, calibrate, and build the Privatizer they describe."""

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

from dprl.privacy.accounting import laplace_scale
from dprl.privacy.base import CountFamilies, TrustModel
from dprl.privacy.certificate import PrivacyRequest
from dprl.privacy.counters import COUNTERS, BinaryTree, ExactCounter
from dprl.privacy.error_bounds import sum_error_bound, tree_error_bound
from dprl.privacy.laplace import Laplace
from dprl.privacy.privatizers import ErrorBounds, NoiseParts, Privatizer
from dprl.privacy.streams import Streams

_SMALLEST_EPSILON = 1e-9
_SMALLEST_DELTA = 1e-15

Calibration = Literal["certified", "printed"]
PrecisionRule = Literal["exact", "printed"]


@dataclass(frozen=True)
class NoPrivacy:
    """No noise anywhere: the non-private algorithm, and an infinite epsilon on the certificate."""

    model: ClassVar[TrustModel] = "none"

    def build(self, families: CountFamilies, n_users: int, streams: Streams) -> Privatizer:
        """Return the privatizer that passes exact counts on."""
        request = PrivacyRequest(None, 0.0, "none", None, 0.0, "nothing is claimed")
        noise = NoiseParts(0.0, ExactCounter(n_users), lambda _: {f.name: 0.0 for f in families.families})
        return Privatizer(request, self.model, families, noise, streams)


@dataclass(frozen=True)
class CentralPrivacy:
    """Joint differential privacy: a trusted server releases noisy running counts.

    *Formal guarantee.* `certified`: (epsilon, delta)-JDP under replacement of one user's trajectory, by the binary
    tree's guarantee and the billboard lemma: node scale 2 H F L / epsilon for delta = 0 (H steps, F families,
    L = ceil(log2 K)). `printed`: the paper's node scale, which proves only 2 L / log K * epsilon.

    Args:
        epsilon: > 0. delta: in [0, 1). counter: 'binary_tree'.
        calibration: whose scale. precision: whose error bound E.

    Paper: [CZ22] Lemma 3.
    """

    epsilon: float
    delta: float = 0.0
    counter: str = BinaryTree.name
    calibration: Calibration = "certified"
    precision: PrecisionRule = "exact"
    model: ClassVar[TrustModel] = "jdp"

    def __post_init__(self) -> None:
        _check_budget(self.epsilon, self.delta)
        _check_choice("counter", self.counter, [name for name in COUNTERS if name != ExactCounter.name])
        _check_choice("calibration", self.calibration, ["certified", "printed"])
        _check_choice("precision", self.precision, ["exact", "printed"])
        _check_printed_delta(self.calibration, self.delta)

    def build(self, families: CountFamilies, n_users: int, streams: Streams) -> Privatizer:
        """Return the privatizer for users 1..n_users (episodes 1..K-1: the last episode's data are never used)."""
        tree = BinaryTree(n_users, 1.0)
        if self.calibration == "printed":
            # D1: Lemma 3 prints Lap(1/eps') with eps' = 3H log K / eps, which is inverted; its E shows the intention.
            log_k = math.log(n_users + 1)
            scale = len(families.families) * families.n_steps * log_k / self.epsilon
        else:
            changes = families.changed_cells() * len(families.families) * tree.nodes_per_item
            scale = laplace_scale(self.epsilon, self.delta, changes)
        bounds = self._error_bounds(families, n_users, scale)
        noise = NoiseParts(0.0, BinaryTree(n_users, scale), bounds)
        request = _request(self.epsilon, self.delta, self.calibration, "[CZ22] Lemma 3")
        return Privatizer(request, self.model, families, noise, streams)

    def _error_bounds(self, families: CountFamilies, n_users: int, scale: float) -> ErrorBounds:
        log_k = math.log(n_users + 1)

        def printed(n_cells: int, beta: float) -> float:
            return scale * math.sqrt(8.0 * log_k * math.log(6.0 * n_cells * (n_users + 1) / beta))

        def exact(n_cells: int, beta: float) -> float:
            return scale * tree_error_bound(n_users, n_cells, beta)

        return _bounds_by_family(families, printed if self.precision == "printed" else exact, self.precision)


@dataclass(frozen=True)
class LocalPrivacy:
    """Local differential privacy: every user adds noise to the own report before it leaves.

    *Formal guarantee.* `certified`: (epsilon, delta)-LDP for any two trajectories: report scale 2 H F / epsilon for
    delta = 0. `printed`: the paper's scale 3 H / epsilon, which is exactly 2 epsilon.

    Args:
        epsilon: > 0. delta: in [0, 1). mechanism: 'laplace'.
        calibration: whose scale. precision: whose error bound E.

    Paper: [CZ22] Lemma 4.
    """

    epsilon: float
    delta: float = 0.0
    mechanism: str = Laplace.name
    calibration: Calibration = "certified"
    precision: PrecisionRule = "exact"
    model: ClassVar[TrustModel] = "ldp"

    def __post_init__(self) -> None:
        _check_budget(self.epsilon, self.delta)
        _check_choice("mechanism", self.mechanism, [Laplace.name])
        _check_choice("calibration", self.calibration, ["certified", "printed"])
        _check_choice("precision", self.precision, ["exact", "printed"])
        _check_printed_delta(self.calibration, self.delta)

    def build(self, families: CountFamilies, n_users: int, streams: Streams) -> Privatizer:
        """Return the privatizer for users 1..n_users."""
        if self.calibration == "printed":
            # D2: Lemma 4 prints Lap(1/eps') with eps' = 3H / eps: inverted as in D1.
            scale = len(families.families) * families.n_steps / self.epsilon
        else:
            scale = laplace_scale(self.epsilon, self.delta, families.changed_cells() * len(families.families))
        noise = NoiseParts(scale, ExactCounter(n_users), self._error_bounds(families, n_users, scale))
        request = _request(self.epsilon, self.delta, self.calibration, "[CZ22] Lemma 4")
        return Privatizer(request, self.model, families, noise, streams)

    def _error_bounds(self, families: CountFamilies, n_users: int, scale: float) -> ErrorBounds:
        n_episodes = n_users + 1

        def printed(n_cells: int, beta: float) -> float:
            return scale * math.sqrt(8.0 * n_episodes * math.log(6.0 * n_cells * n_episodes / beta))

        def exact(n_cells: int, beta: float) -> float:
            return scale * sum_error_bound(n_users, n_cells, beta)

        return _bounds_by_family(families, printed if self.precision == "printed" else exact, self.precision)


TRUST_MODELS: dict[str, type[NoPrivacy] | type[CentralPrivacy] | type[LocalPrivacy]] = {
    NoPrivacy.model: NoPrivacy,
    CentralPrivacy.model: CentralPrivacy,
    LocalPrivacy.model: LocalPrivacy,
}


def _bounds_by_family(
    families: CountFamilies, bound: Callable[[int, float], float], rule: PrecisionRule
) -> ErrorBounds:
    """Return beta -> E per family; the exact rule splits beta evenly, the printed formula does not."""
    share = len(families.families) if rule == "exact" else 1

    def bounds(beta: float) -> dict[str, float]:
        return {f.name: bound(families.n_steps * f.width, beta / share) for f in families.families}

    return bounds


def _request(epsilon: float, delta: float, calibration: Calibration, lemma: str) -> PrivacyRequest:
    source = lemma if calibration == "printed" else "the requested guarantee, met by the certified scale"
    return PrivacyRequest(epsilon, delta, calibration, epsilon, delta, source)


def _check_budget(epsilon: float, delta: float) -> None:
    if not _is_number(epsilon):
        raise ValueError(f"epsilon must be a number above 0, got {epsilon!r}; for no privacy write model: none")
    if not (math.isfinite(epsilon) and epsilon > 0):
        raise ValueError(f"epsilon must be finite and above 0, got {epsilon!r}; for no privacy write model: none")
    if not _SMALLEST_EPSILON <= epsilon <= 1 / _SMALLEST_EPSILON:
        raise ValueError(f"epsilon must lie between 1e-9 and 1e9, got {epsilon!r}; beyond that nothing can be computed")
    if not (_is_number(delta) and (delta == 0 or _SMALLEST_DELTA <= delta < 1)):
        raise ValueError(f"delta must be 0 or lie in [1e-15, 1), got {delta!r}; 0 asks for pure differential privacy")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_printed_delta(calibration: str, delta: float) -> None:
    if calibration == "printed" and delta > 0:
        raise ValueError(f"the printed calibration claims delta 0, got {delta!r}; use calibration: certified")


def _check_choice(key: str, value: object, choices: list[str]) -> None:
    if value not in choices:
        near = difflib.get_close_matches(str(value), choices, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(choices)}"
        raise ValueError(f"{key} must be one of {', '.join(choices)}, got {value!r}; {hint}")
