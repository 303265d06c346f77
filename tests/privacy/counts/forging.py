"""States that nobody wrote, with the digests that they would have."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dprl.privacy import Privatizer
from dprl.privacy.counts.channels import fixed_part
from dprl.privacy.states import sealed


def resealed(privatizer: Privatizer, state: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a forged state: its arrays, with the digests that they would have."""
    arrays = {key: array for key, array in state.items() if key not in ("fixed", "digest")}
    return sealed(fixed_part(privatizer.channel), arrays)
