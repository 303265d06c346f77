"""Mechanisms: each randomizes numbers of one kind, has a privacy curve, and finds the scale for a guarantee."""

from __future__ import annotations

from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.bounded import BoundedLaplace, Uniform
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.gram import Gram, GramBoundedLaplace, GramGaussian, GramLaplace, GramUniform
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.privunit import PrivUnit
from dprl.privacy.mechanisms.projected_random_sign import ProjectedRandomSign
from dprl.privacy.mechanisms.reports import DirectEncoding, OneHotEncoding, OptimizedUnaryEncoding
from dprl.privacy.mechanisms.vectors import ClippedGaussian, ClippedLaplace, VectorMechanism

ADDITIVE: dict[str, type[Mechanism]] = {
    law.name: law for law in (Laplace, DiscreteLaplace, Gaussian, DiscreteGaussian, Uniform, BoundedLaplace)
}
"""Additive mechanisms by name."""

ENCODINGS: dict[str, type[OneHotEncoding]] = {
    encoding.name: encoding for encoding in (OptimizedUnaryEncoding, DirectEncoding)
}
"""Randomized bits instead of one-hot vectors."""

VECTORS: dict[str, type[VectorMechanism]] = {
    vectors.name: vectors for vectors in (ClippedLaplace, ClippedGaussian, ProjectedRandomSign, PrivUnit)
}
"""Whole vectors, gradients for instance, clipped on the user's side."""

GRAMS: dict[str, type[Gram]] = {
    grams.name: grams for grams in (GramGaussian, GramLaplace, GramUniform, GramBoundedLaplace)
}
"""Symmetric Gram matrices with their right-hand sides."""

MECHANISMS: dict[str, type[Mechanism | OneHotEncoding | VectorMechanism | Gram]] = {
    **ADDITIVE,
    **ENCODINGS,
    **VECTORS,
    **GRAMS,
}
"""All of them by name."""

MessageMechanism = VectorMechanism | Gram
"""Mechanisms that bound their own sensitivity: `curve()` is that of one submission.

A submission is one vector for VectorMechanism; for Gram it is all messages of an episode to all agents.
"""


def laws_for(place: str) -> list[type[Mechanism]]:
    """Return the laws that a config may use at a place, NODE for instance; see mechanisms/base.py."""
    return [law for law in ADDITIVE.values() if place in law.places]
