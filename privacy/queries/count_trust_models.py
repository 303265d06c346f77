"""Trust models for counts: settings that validate themselves, calibrate the noise, and build the privatizer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol

from dprl.privacy.base import Guarantee, TrustModel
from dprl.privacy.certificate import PrivacyRequest
from dprl.privacy.counters import RETIRED, ExactCounter
from dprl.privacy.counters.binary_tree import BinaryTree
from dprl.privacy.mechanisms import ADDITIVE
from dprl.privacy.mechanisms.base import INTEGER
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.privatizer import Privatizer
from dprl.privacy.queries.count_calibration import (
    AUTO,
    CountBudget,
    calibrated_counter,
    calibrated_report,
    counter_names,
    report_names,
)
from dprl.privacy.queries.count_encoding import RELEASED_FAMILIES, CountEncoding, CountFamilies
from dprl.privacy.queries.count_precision import NoiseSpec
from dprl.privacy.queries.counts import CountQuery
from dprl.privacy.queries.printed import PRINTED, PrintedLemma, PrintedPrivatizers
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.validation import check_budget, check_choice

Calibration = Literal["certified", "printed"]
PrecisionRule = Literal["exact", "printed"]

CountPrivatizer = Privatizer[CountQuery]


class PrivacyConfig(Protocol):
    """Settings of a trust model for counts."""

    model: ClassVar[TrustModel]

    def build(self, families: CountFamilies, n_users: int, streams: Streams) -> CountPrivatizer:
        """Return the privatizer for users 1..n_users."""


@dataclass(frozen=True)
class NoPrivacy:
    """No noise anywhere: the non-private algorithm, and an infinite epsilon on the certificate."""

    model: ClassVar[TrustModel] = "none"

    def build(self, families: CountFamilies, n_users: int, streams: Streams) -> CountPrivatizer:
        """Return the privatizer that passes exact counts on."""
        _check_users(n_users)
        request = PrivacyRequest(None, None, "none", "nothing is claimed")
        query = CountQuery(CountEncoding(families), NoiseSpec(None, ExactCounter(n_users)))
        return Privatizer(query, request, n_users, streams)


@dataclass(frozen=True)
class _Calibrated(ABC):
    """Settings that the noisy trust models share: budget, sources of scale and error bound, released families."""

    epsilon: float
    delta: float = 0.0
    calibration: Calibration = "certified"
    precision: PrecisionRule = "exact"
    families: str = "separate"
    mechanism: str = AUTO
    model: ClassVar[TrustModel]

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        check_choice("calibration", self.calibration, ["certified", "printed"])
        check_choice("precision", self.precision, ["exact", "printed"])
        check_choice("families", self.families, RELEASED_FAMILIES)
        if self.calibration == "printed":
            _check_printed(self.delta, self.families)

    def build(self, families: CountFamilies, n_users: int, streams: Streams) -> CountPrivatizer:
        """Return the privatizer for users 1..n_users (episodes 1..K-1: the last episode's data are never used).

        Raises ValueError for settings that do not fit together.
        """
        _check_users(n_users)
        encoding = CountEncoding(
            families, self.families, whole=streams.noise.arithmetic == "exact" or self._needs_integers
        )
        guarantee = Guarantee(self.model, self.epsilon, self.delta)
        source, why = "the requested guarantee, met by the certified scale", ""
        if self.calibration == "printed":
            lemma = self._lemma(_printed(families, streams, "calibration: certified"))
            noise = self._printed_noise(Laplace(lemma.scale(families, n_users, self.epsilon)), n_users)
            source = lemma.source
        else:
            noise, why = self._noise(encoding, n_users, streams)
        if self.precision == "printed":
            lemma = self._lemma(_printed(families, streams, "precision: exact"))
            if lemma.error is None:
                raise ValueError(
                    f"precision must be exact here, got printed; {lemma.source} gives its error bound up to a constant"
                )
            noise = noise._replace(printed=lemma.error)
        request = PrivacyRequest(guarantee, guarantee, self.calibration, source, why)
        return Privatizer(CountQuery(encoding, noise), request, n_users, streams)

    def _budget(self, encoding: CountEncoding, n_users: int, streams: Streams) -> CountBudget:
        return CountBudget(self.epsilon, self.delta, encoding, n_users, streams.noise.arithmetic)

    @property
    def _needs_integers(self) -> bool:
        """Whether the noise hides whole numbers only, also with arithmetic: fast."""
        law = ADDITIVE.get(self.mechanism)
        return law is not None and law.arithmetic == INTEGER

    @staticmethod
    @abstractmethod
    def _lemma(printed: PrintedPrivatizers) -> PrintedLemma:
        """Return the paper's lemma on this trust model."""

    @abstractmethod
    def _printed_noise(self, node: Laplace, n_users: int) -> NoiseSpec:
        """Return where the paper has its noise."""

    @abstractmethod
    def _noise(self, encoding: CountEncoding, n_users: int, streams: Streams) -> tuple[NoiseSpec, str]:
        """Return the least noise of the chosen kind that meets the guarantee, and why it was chosen, if it was."""


@dataclass(frozen=True)
class CentralPrivacy(_Calibrated):
    """Joint differential privacy: a trusted server keeps exact counts and releases noisy running counts.

    *Formal guarantee.* `certified`: (epsilon, delta)-JDP under replacement of one user's trajectory, by the counter's
    guarantee and the billboard lemma; for the binary tree with Laplace noise and delta = 0 a node scale of
    2 H F L / epsilon (H steps, F released families, L = ceil(log2 K)). `printed`: the paper's node scale, which proves
    only 2 L / log K * epsilon.

    Args:
        epsilon: in [1e-9, 1e9]. delta: 0 or in [1e-15, 1).
        calibration: whose scale. precision: whose error bound E.
        families: what is released: 'separate', 'marginal' or 'one_hot', see layouts.py.
        counter: a counter's name, or 'auto' for the one with the smallest error.
        mechanism: the noise of its nodes, or 'auto' for the one with the smaller variance.

    Paper: [CZ22] Lemma 3.
    """

    counter: str = BinaryTree.name
    model: ClassVar[TrustModel] = "jdp"

    def __post_init__(self) -> None:
        super().__post_init__()
        counters, laws = counter_names()
        if other := RETIRED.get(self.counter):
            raise ValueError(f"counter must not be {self.counter}: {other} has less error; write counter: {other}")
        check_choice("counter", self.counter, counters)
        check_choice("mechanism", self.mechanism, laws)
        if self.calibration == "printed" and (
            self.counter != BinaryTree.name or self.mechanism not in (AUTO, Laplace.name)
        ):
            raise ValueError(
                f"calibration must be certified with counter {self.counter} and mechanism {self.mechanism}, "
                "got 'printed'; the papers print a scale for binary_tree with laplace only"
            )

    @staticmethod
    def _lemma(printed: PrintedPrivatizers) -> PrintedLemma:
        return printed.central

    def _printed_noise(self, node: Laplace, n_users: int) -> NoiseSpec:
        return NoiseSpec(None, BinaryTree(n_users, node))

    def _noise(self, encoding: CountEncoding, n_users: int, streams: Streams) -> tuple[NoiseSpec, str]:
        counter, why = calibrated_counter(self.counter, self.mechanism, self._budget(encoding, n_users, streams))
        return NoiseSpec(None, counter), why


@dataclass(frozen=True)
class LocalPrivacy(_Calibrated):
    """Local differential privacy: every user randomises their report before it leaves.

    *Formal guarantee.* `certified`: (epsilon, delta)-LDP for any two trajectories; with Laplace noise and delta = 0 a
    scale of 2 H F / epsilon (H steps, F released families). `printed`: the paper's scale 3 H / epsilon, which is
    exactly 2 epsilon.

    Args:
        epsilon: in [1e-9, 1e9]. delta: 0 or in [1e-15, 1).
        calibration: whose scale. precision: whose error bound E.
        families: what is sent: 'separate', 'marginal' or 'one_hot', see layouts.py; unary encodings need 'one_hot'.
        mechanism: the randomiser of the report, or 'auto' for the one with the smallest variance.

    Paper: [CZ22] Lemma 4.
    """

    model: ClassVar[TrustModel] = "ldp"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("mechanism", self.mechanism, report_names())
        if self.calibration == "printed" and self.mechanism not in (AUTO, Laplace.name):
            raise ValueError(
                f"calibration must be certified with mechanism {self.mechanism}, got 'printed'; "
                "the papers print a scale for laplace only"
            )

    @staticmethod
    def _lemma(printed: PrintedPrivatizers) -> PrintedLemma:
        return printed.local

    def _printed_noise(self, node: Laplace, n_users: int) -> NoiseSpec:
        return NoiseSpec(node, ExactCounter(n_users))

    def _noise(self, encoding: CountEncoding, n_users: int, streams: Streams) -> tuple[NoiseSpec, str]:
        report, why = calibrated_report(self.mechanism, self._budget(encoding, n_users, streams))
        return NoiseSpec(report, ExactCounter(n_users)), why


TRUST_MODELS: dict[str, type[PrivacyConfig]] = {
    NoPrivacy.model: NoPrivacy,
    CentralPrivacy.model: CentralPrivacy,
    LocalPrivacy.model: LocalPrivacy,
}


def _printed(families: CountFamilies, streams: Streams, otherwise: str) -> PrintedPrivatizers:
    """Return what the paper prints; `otherwise` is what to write in the config where it prints nothing."""
    key, _, value = otherwise.partition(": ")
    if families.paper not in PRINTED:
        raise ValueError(f"{key} must be {value} here, got printed; no paper prints one for these counts")
    if streams.noise.arithmetic == "exact":
        raise ValueError(
            f"{key} must be {value} with arithmetic: exact, got printed; papers print real numbers: "
            f"write arithmetic: fast, or {otherwise}"
        )
    return PRINTED[families.paper]


def _check_users(n_users: int) -> None:
    if n_users < 1:
        raise ValueError(f"n_users must be at least 1, got {n_users}; run at least 2 episodes")


def _check_printed(delta: float, families: str) -> None:
    if delta > 0:
        raise ValueError(f"delta must be 0 with the printed calibration, got {delta!r}; use calibration: certified")
    if families != "separate":
        raise ValueError(
            f"families must be separate with the printed calibration, got {families!r}; use calibration: certified"
        )
