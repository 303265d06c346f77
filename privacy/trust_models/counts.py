"""Settings shared by the noisy trust models of counts: calibration, error bound, released families."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from dprl.privacy.counters import BinaryTree, ExactCounter
from dprl.privacy.mechanisms import ADDITIVE
from dprl.privacy.mechanisms.base import INTEGER
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.queries.count_calibration import AUTO, CountBudget
from dprl.privacy.queries.count_encoding import RELEASED_FAMILIES, CountEncoding
from dprl.privacy.queries.count_families import CountFamilies
from dprl.privacy.queries.count_precision import NoiseSpec
from dprl.privacy.queries.counts import CountQuery
from dprl.privacy.queries.printed import PRINTED, PrintedLemma
from dprl.privacy.randomness.streams import Streams
from dprl.privacy.threat_models import NOISY_SIDES
from dprl.privacy.trust_models.base import MET_BY_CERTIFIED, Budgeted, Placed
from dprl.privacy.validation import check_choice


@dataclass(frozen=True)
class CountSettings(Budgeted[CountFamilies, CountQuery]):
    """Settings of noise on counts; see the trust models.

    Args:
        calibration: source of the scale. precision: source of the error bound E.
        families: families that get noise: 'separate' or 'one_hot', see count_encoding.py; unary encodings need
            'one_hot'. 'auto': 'one_hot' where the counts allow it, for the least noise.
        mechanism: the noise of a report, or 'auto' for the one that detects visits best; with a counter, the noise of
            its nodes, or 'auto' for the one with the smaller variance.

    With `printed`, 'auto' stands for what the papers have: separate families, laplace, binary_tree.
    """

    calibration: Literal["certified", "printed"] = "certified"
    precision: Literal["exact", "printed"] = "exact"
    families: str = AUTO
    mechanism: str = AUTO

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("families", self.families, [*RELEASED_FAMILIES, AUTO])
        if self.calibration == "printed":
            _check_printed(self.delta, self.families)

    def place(self, data: CountFamilies, n_users: int, streams: Streams, growth: float) -> Placed[CountQuery]:
        """Return the query with the calibrated or the printed noise."""
        del growth
        encoding = self._encoding(data, whole=streams.noise.arithmetic == "exact" or self._needs_integers)
        source, why = MET_BY_CERTIFIED + "scale", ""
        if self.calibration == "printed":
            lemma = self._lemma(data, streams, "calibration: certified")
            law, local = Laplace(lemma.scale(data, n_users, self.epsilon)), NOISY_SIDES[self.model][0]
            noise = NoiseSpec(law, ExactCounter(n_users)) if local else NoiseSpec(None, BinaryTree(n_users, law))
            source = lemma.source
        else:
            noise, why = self._noise(encoding, n_users, streams)
        if self.precision == "printed":
            lemma = self._lemma(data, streams, "precision: exact")
            if lemma.error is None:
                raise ValueError(
                    f"precision must be exact here, got printed; {lemma.source} gives its error bound up to a constant"
                )
            noise = noise._replace(printed=lemma.error)
        return Placed(CountQuery(encoding, noise), source, self.calibration, choice=why)

    @property
    def printed(self) -> bool:
        """Whether the noise or its error bound is a paper's."""
        return "printed" in (self.calibration, self.precision)

    @property
    def _law_name(self) -> str:
        """Name of the noise; 'auto' still for the best one."""
        return Laplace.name if self.printed and self.mechanism == AUTO else self.mechanism

    def _encoding(self, data: CountFamilies, *, whole: bool) -> CountEncoding:
        """Return the encoding; 'auto' is `one_hot`, whose row changes least, if families and paper allow it."""
        if self.families != AUTO:
            return CountEncoding(data, self.families, whole=whole)
        if not self.printed:
            with suppress(ValueError):
                return CountEncoding(data, "one_hot", whole=whole)
        return CountEncoding(data, "separate", whole=whole)

    def _budget(self, encoding: CountEncoding, n_users: int, streams: Streams) -> CountBudget:
        return CountBudget(self.epsilon, self.delta, encoding, n_users, streams.noise.arithmetic)

    @property
    def _needs_integers(self) -> bool:
        """Whether the noise hides only whole numbers, even with arithmetic: fast."""
        law = ADDITIVE.get(self.mechanism)
        return law is not None and law.arithmetic == INTEGER

    def _lemma(self, families: CountFamilies, streams: Streams, otherwise: str) -> PrintedLemma:
        """Return the paper's lemma; `otherwise` is the setting to recommend if it prints none."""
        key, _, value = otherwise.partition(": ")
        if families.paper not in PRINTED:
            raise ValueError(f"{key} must be {value} here, got printed; no paper prints one for these counts")
        if streams.noise.arithmetic == "exact":
            raise ValueError(
                f"{key} must be {value} with arithmetic: exact, got printed; papers print real numbers: "
                f"write arithmetic: fast, or {otherwise}"
            )
        return PRINTED[families.paper][self.model]

    @abstractmethod
    def _noise(self, encoding: CountEncoding, n_users: int, streams: Streams) -> tuple[NoiseSpec, str]:
        """Return the least noise of the chosen kind that meets the guarantee, with the reason if it was chosen."""


def _check_printed(delta: float, families: str) -> None:
    if delta > 0:
        raise ValueError(f"delta must be 0 with the printed calibration, got {delta!r}; use calibration: certified")
    if families not in ("separate", AUTO):
        raise ValueError(
            f"families must be separate with the printed calibration, got {families!r}; use calibration: certified"
        )
