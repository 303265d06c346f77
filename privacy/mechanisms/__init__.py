"""Mechanisms: each randomises numbers of one kind, knows what its scale proves, the scale a guarantee needs."""

from __future__ import annotations

from dprl.privacy.mechanisms.base import Mechanism
from dprl.privacy.mechanisms.bounded_laplace import BoundedLaplace
from dprl.privacy.mechanisms.discrete_gaussian import DiscreteGaussian
from dprl.privacy.mechanisms.discrete_laplace import DiscreteLaplace
from dprl.privacy.mechanisms.gaussian import Gaussian
from dprl.privacy.mechanisms.laplace import Laplace
from dprl.privacy.mechanisms.uniform import Uniform

MECHANISMS: dict[str, type[Mechanism]] = {
    mechanism.name: mechanism
    for mechanism in (Laplace, DiscreteLaplace, Gaussian, DiscreteGaussian, Uniform, BoundedLaplace)
}
"""Additive noise by its name."""
