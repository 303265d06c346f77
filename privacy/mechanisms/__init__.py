"""Mechanisms: each randomises numbers of one kind, knows what its scale proves, the scale a guarantee needs."""

from __future__ import annotations

from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.bounded_laplace import BoundedLaplace
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.gradients import ClippedGaussian, ClippedLaplace, VectorMechanism
from dprl.privacy.mechanisms.gram_bounded import GramBoundedLaplace, GramUniform
from dprl.privacy.mechanisms.gram_gaussian import GramGaussian
from dprl.privacy.mechanisms.gram_laplace import GramLaplace
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign
from dprl.privacy.mechanisms.randomized_response import RandomizedResponse
from dprl.privacy.mechanisms.unary_encoding import OptimizedUnaryEncoding, SymmetricUnaryEncoding, UnaryEncoding
from dprl.privacy.mechanisms.uniform import Uniform

GramMechanism = GramGaussian | GramLaplace | GramUniform | GramBoundedLaplace
BitMechanism = RandomizedResponse | UnaryEncoding

ADDITIVE: dict[str, type[Mechanism]] = {
    **{law.name: law for law in (Laplace, DiscreteLaplace, Gaussian, DiscreteGaussian, Uniform, BoundedLaplace)},
    # The same law, its bound taken from (epsilon, delta).
    "truncated_laplace": BoundedLaplace,
}
"""Noise added to numbers."""

BITS: dict[str, type[BitMechanism]] = {
    bits.name: bits for bits in (RandomizedResponse, SymmetricUnaryEncoding, OptimizedUnaryEncoding)
}
"""Coins in place of bits."""

VECTORS: dict[str, type[VectorMechanism]] = {
    vectors.name: vectors for vectors in (ClippedLaplace, ClippedGaussian, ProjectedRandomSign, PrivUnit)
}
"""Whole vectors, gradients for instance, clipped on the user's side."""

GRAMS: dict[str, type[GramMechanism]] = {
    grams.name: grams for grams in (GramGaussian, GramLaplace, GramUniform, GramBoundedLaplace)
}
"""Symmetric Gram matrices with their right-hand sides."""

MECHANISMS: dict[str, type[Mechanism | BitMechanism | VectorMechanism | GramMechanism]] = {
    **ADDITIVE,
    **BITS,
    **VECTORS,
    **GRAMS,
}
"""All of them by name."""

MessageMechanism = VectorMechanism | GramMechanism
"""What bounds its own sensitivity: `curve()` is that of one submission.

A submission is one vector for VectorMechanism; for GramMechanism it is all messages of an episode to all agents.
"""
