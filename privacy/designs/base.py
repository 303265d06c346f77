"""Privacy settings of a config: what all kinds of data have in common."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args, get_origin

from dprl.privacy.base import ADJACENCY, Guarantee, TrustModel, check_budget, check_choice, check_fields, field_types
from dprl.privacy.counters import COUNTERS
from dprl.privacy.journal import ChargeJournal
from dprl.privacy.mechanisms import laws_for
from dprl.privacy.mechanisms.base import NODE
from dprl.privacy.noise_design import ENTROPY, NoiseDesign
from dprl.privacy.privatizer import Privatizer
from dprl.privacy.queries.base import Query
from dprl.privacy.randomness.streams import NoiseConfig, Streams

D = TypeVar("D")
Q = TypeVar("Q", bound=Query)
AUTO = "auto"
ReleaseTimes = Literal["scheduled", "every_user"]
COUNTER_NAMES = (*COUNTERS, AUTO)
"""Names for `counter`."""
NODE_LAWS = tuple(laws_for(NODE))
NODE_NAMES = (*(law.name for law in NODE_LAWS), AUTO)
"""Names of laws of a counter's nodes, and of additive noise on messages."""
MET_BY_CERTIFIED = "the requested guarantee, met by the certified "
"""Beginning of the source of certified noise."""


@dataclass(frozen=True)
class PrivacySettings(ABC, Generic[D, Q]):
    """Settings of a config's section `privacy` for one kind of data. D describes a user's data, Q is the query.

    Args:
        model: the trust model. epsilon: in [1e-9, 1e9], needed unless the model is none. delta: 0 or in [1e-15, 1).

    Raises ValueError for values out of range, a key of another model, and settings that do not fit together.
    """

    model: TrustModel
    epsilon: float = 0.0
    delta: float = 0.0

    data: ClassVar[str]
    """The kind of data: 'counts', 'gradients' or 'statistics'."""
    submissions = 1  # not annotated, so that it is no field here
    """T, the maximum of submissions of one user; a setting of gradients."""
    KEYS: ClassVar[Mapping[TrustModel, tuple[str, ...]]]
    """Keys besides epsilon and delta, by trust model."""

    @classmethod
    @abstractmethod
    def names(cls, model: TrustModel) -> dict[str, Sequence[str]]:
        """Return the names that a key may have, for keys whose names depend on the trust model."""

    @abstractmethod
    def design(self, data: D, n_users: int, noise: NoiseConfig, growth: float = 0.0) -> NoiseDesign[Q]:
        """Return the noise for `n_users` users. Raises ValueError for settings that do not fit together.

        growth: of the learner's `ReleaseSchedule`; 0: after every user. Noise on messages alone does not depend on it.
        """

    def summary(self, design: NoiseDesign[Q]) -> dict[str, Any]:  # noqa: ARG002
        """Return facts about the size of the noise for the certificate: 'error', 'best_available'."""
        return {}

    @classmethod
    def keys(cls, model: TrustModel) -> tuple[str, ...]:
        """Return the keys of a trust model, without `model`."""
        return (*(() if model == "none" else ("epsilon", "delta")), *cls.KEYS[model])

    @classmethod
    def choices(cls, model: TrustModel) -> dict[str, Sequence[str]]:
        """Return the names that keys of a trust model may have; other keys are numbers or flags."""
        found = cls.names(model)
        hints = field_types(cls)
        literal = {key for key in cls.KEYS[model] if get_origin(hints[key]) is Literal}
        listed = {key: [str(name) for name in get_args(hints[key])] for key in literal}
        return {key: {**listed, **found}[key] for key in cls.KEYS[model] if key in found or key in listed}

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as a config has them: the model and its keys."""
        return {"model": self.model, **{key: getattr(self, key) for key in self.keys(self.model)}}

    _adjacency: ClassVar[str] = ADJACENCY

    @property
    def requested(self) -> Guarantee | None:
        """The guarantee that was asked for; None without noise."""
        return None if self.model == "none" else Guarantee(self.model, self.epsilon, self.delta, self._adjacency)

    def build(
        self, data: D, n_submissions: int, streams: Streams, journal: ChargeJournal | None = None, growth: float = 0.0
    ) -> Privatizer[Q]:
        """Return the privatizer of `n_submissions` submissions, by as few users as can send them.

        With one submission each these are users 1..n_submissions, K - 1 for K episodes, because the data of the last
        episode are never used. journal: keeps charges. growth: of the schedule on which the learner plans.
        Raises ValueError for settings that do not fit together.
        """
        if n_submissions < 1:
            raise ValueError(f"n_submissions must be at least 1, got {n_submissions}; run at least 2 episodes")
        design = self.design(data, -(-n_submissions // self.submissions), streams.noise, growth)
        return Privatizer(design, streams, journal)

    def __post_init__(self) -> None:
        check_choice("model", self.model, list(self.KEYS))
        own = self.keys(self.model)
        for entry in fields(self):
            key, value = entry.name, getattr(self, entry.name)
            if key != "model" and key not in own and value != entry.default:
                raise ValueError(f"{key} must be left out with model {self.model}, got {value!r}; it has no use there")
        if self.model != "none":
            check_budget(self.epsilon, self.delta)
        check_fields(self)
        for key, names in self.names(self.model).items():
            check_choice(key, getattr(self, key), names)

    def _require(self, where: str, remedy: str, **allowed: Collection[object]) -> None:
        """Raise ValueError, in one line, unless keys have values that are allowed `where` other keys have theirs."""
        for key, values in allowed.items():
            if (value := getattr(self, key)) not in values:
                raise ValueError(f"{key} must be {' or '.join(map(str, values))} with {where}, got {value!r}; {remedy}")

    def _designed(
        self,
        query: Q,
        data: D,
        users: int,
        noise: NoiseConfig,
        growth: float = 0.0,
        **origin: Any,  # noqa: ANN401 - fields of the design
    ) -> NoiseDesign[Q]:
        """Return the design of a query's noise, which by default meets the request; `origin` overrides its fields."""
        asked, origin = self.requested, {"n_users": operator.index(users), **origin}
        if asked is not None:
            origin = {"claimed": asked, "calibration": "certified", "source": f"{MET_BY_CERTIFIED}noise", **origin}
        return NoiseDesign(
            self.model,
            query.events(ENTROPY[noise.entropy]),
            query.threat_model(self.model, self.submissions),
            submissions=self.submissions,
            query=query,
            requested=asked,
            noise=noise,
            settings=self,
            data=data,
            users=users,
            growth=0.0 if query.schedule is None else growth,
            **origin,
        )
