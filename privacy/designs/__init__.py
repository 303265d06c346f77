"""Designs of noise: for each kind of data its settings, and one function for each trust model.

>>> PRIVACY_SETTINGS["counts"]("jdp", 1.0).requested.epsilon
1.0
"""

from __future__ import annotations

from typing import Any

from dprl.privacy.designs.base import PrivacySettings
from dprl.privacy.designs.counts import CountPrivacy
from dprl.privacy.designs.gradients import GradientPrivacy
from dprl.privacy.designs.linear_statistics import StatisticsPrivacy

PRIVACY_SETTINGS: dict[str, type[PrivacySettings[Any, Any]]] = {
    kind.data: kind for kind in (CountPrivacy, GradientPrivacy, StatisticsPrivacy)
}
"""Settings by the kind of data that users release."""
