"""Projected random sign: a few random projections of a gradient, each sent as one randomized bit.

A message has the bits and the seed of the projection, from which the server draws the projection again. The seed is
public, so it comes from a separate key: a word of the key that draws the coins could reveal them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from dprl.privacy.accounting.closed_forms import RandomizedResponses
from dprl.privacy.base import check_positive
from dprl.privacy.mechanisms.base import INTEGER
from dprl.privacy.mechanisms.random_sign_kernels import SEED_NUMBERS, random_sign_workspace
from dprl.privacy.mechanisms.reports import RandomizedResponse
from dprl.privacy.mechanisms.sampling import silent
from dprl.privacy.mechanisms.vectors import SIGNS, VectorMechanism, VectorNoise
from dprl.privacy.randomness.streams import derived_key

# [OT20] sec. 4: d_hat = floor(epsilon / 2.5), after a paper that it cites.
EPSILON_PER_PROJECTION = 2.5


@dataclass(frozen=True)
class ProjectedRandomSign(VectorMechanism):
    """u = M g with a sparse random M, clipped to [-C, C]; every u_i is sent as one bit of local loss epsilon / d_hat.

    M is d_hat x d with entries +sqrt(3), 0, -sqrt(3) of probabilities 1/6, 2/3, 1/6, fresh for every submission and
    independent of the data.

    *Formal guarantee.* For any two vectors of the user, of any norms, one message (bits, seed of M) is (d_hat *
    bit.epsilon, 0)-LDP, also given M, so M may be public; vectors with M g = C and -C in every projection attain this
    loss. u_i is first rounded to -C or C by the user's own coin with mean u_i, in float64: this is preparation of the
    input. Then an exact coin with loss x = bit.epsilon reports or flips the bit. Together the law is that of eq. (24),
    P(+C) = 1/(e^x + 1) + (u + C)/(2C) (e^x - 1)/(e^x + 1), and the guarantee depends on the second coin only, for any
    rounding of u in float64.

    The estimate M^T u~ has the mean d_hat tanh(x/2) g, as the mean of M^T M is d_hat times the identity.

    Eq. (24) prints e^(epsilon/k) with an undefined k; only k = d_hat is epsilon-LDP as claimed.

    Args:
        projections: d_hat, the bits of a message.
        clip: C > 0; a small one sends the projections' signs.
        bit: randomized response of each bit.

    Paper: [OT20] eqs. (5), (23), (24), Algorithm 3.
    """

    dimension: int
    projections: int
    clip: float
    bit: RandomizedResponse
    NAMED: ClassVar[dict[str, object]] = {"scaling": "paper"}
    name: ClassVar[str] = "projected_random_sign"
    arithmetic: ClassVar[str] = INTEGER

    def __post_init__(self) -> None:
        if not 1 <= self.projections <= self.dimension:
            raise ValueError(f"projections must lie in 1..dimension, got {self.projections} for {self.dimension}")
        check_positive("clip", self.clip, "projections are clipped to it")

    @classmethod
    def calibrated(cls, epsilon: float, delta: float, dimension: int, clip: float) -> ProjectedRandomSign:  # noqa: ARG003
        """Return the paper's choice d_hat = max(1, min(d, floor(epsilon / 2.5))), with epsilon / d_hat per bit."""
        check_positive("epsilon", epsilon, "nothing else is a guarantee")
        projections = max(1, min(dimension, math.floor(epsilon / EPSILON_PER_PROJECTION)))
        # D4: k = d_hat where eq. (24) prints e^(epsilon/k) and leaves k undefined.
        each = epsilon / projections
        while each * projections > epsilon:
            each = math.nextafter(each, 0.0)
        return cls(dimension, projections, clip, RandomizedResponse(each))

    @property
    def epsilon(self) -> float:
        """The loss of one message."""
        return self.projections * self.bit.epsilon

    @property
    def noise_norm(self) -> float:
        """A bound on the root mean squared norm of the estimate less its mean: every row of M has squared norm d."""
        return self.clip * math.sqrt(self.dimension * self.projections)

    @property
    def message_length(self) -> int:
        return self.projections + SEED_NUMBERS

    def curve(self) -> RandomizedResponses:
        return RandomizedResponses(self.projections, self.bit.epsilon)

    def explain(self) -> str:
        return (
            f"epsilon = d_hat epsilon_0 = {self.projections} * {self.bit.epsilon:.6g} = {self.epsilon:.6g}: d_hat bits "
            "are sent, each true with probability e^epsilon_0 / (1 + e^epsilon_0), and all may differ for two vectors"
        )

    def vector_noise(self, key: npt.NDArray[np.uint64]) -> VectorNoise:
        coins = silent(key)._replace(table=self.bit.table())
        sizes = random_sign_workspace(self.dimension, self.projections)
        noise = self._for_kernels(SIGNS, self.clip, coins, sizes, 2 * self.projections)
        return noise._replace(factor=self.clip, open_key=derived_key(key, "projection"))
