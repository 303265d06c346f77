"""Privacy curves and their composition."""

from __future__ import annotations

from dprl.privacy.accounting.closed_forms import (
    composed_delta,
    composed_epsilon,
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    laplace_scale,
    largest_loss,
    zcdp_delta,
    zcdp_epsilon,
    zcdp_rho,
)
from dprl.privacy.accounting.composition import (
    ComposedLoss,
    UserEpsilons,
    compose,
    repeat,
    submission_epsilon,
    summary_over_users,
)
from dprl.privacy.accounting.curves import (
    ZCDP,
    ApproximateLoss,
    GaussianDP,
    PrivacyCurve,
    PureDP,
    RandomizedResponses,
    Unbounded,
)
from dprl.privacy.accounting.discrete_gaussians import (
    DiscreteGaussianLoss,
    discrete_gaussian_delta,
    discrete_gaussian_sigma,
)

__all__ = [
    "ZCDP",
    "ApproximateLoss",
    "ComposedLoss",
    "DiscreteGaussianLoss",
    "GaussianDP",
    "PrivacyCurve",
    "PureDP",
    "RandomizedResponses",
    "Unbounded",
    "UserEpsilons",
    "compose",
    "composed_delta",
    "composed_epsilon",
    "discrete_gaussian_delta",
    "discrete_gaussian_sigma",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "laplace_scale",
    "largest_loss",
    "repeat",
    "submission_epsilon",
    "summary_over_users",
    "zcdp_delta",
    "zcdp_epsilon",
    "zcdp_rho",
]
