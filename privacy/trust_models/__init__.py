"""Trust models: one file each, with the settings of every query that has it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dprl.privacy.trust_models.base import TrustModelSettings
from dprl.privacy.trust_models.central import CENTRAL_PRIVACY
from dprl.privacy.trust_models.local import LOCAL_PRIVACY
from dprl.privacy.trust_models.none import NO_PRIVACY
from dprl.privacy.trust_models.shuffle import SHUFFLE_PRIVACY

_Settings = Mapping[str, type[TrustModelSettings[Any, Any]]]
_ALL: tuple[_Settings, ...] = (NO_PRIVACY, CENTRAL_PRIVACY, SHUFFLE_PRIVACY, LOCAL_PRIVACY)
TRUST_MODELS: dict[str, _Settings] = {
    query: {models[query].model: models[query] for models in _ALL if query in models} for query in NO_PRIVACY
}
"""Settings by query and by name of the trust model."""
