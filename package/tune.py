"""Experiments as trials of Ray Tune; see docs/tune.md."""

from __future__ import annotations

from dprl.platform.errors import missing_extra

try:
    from dprl.platform.tuning import trainable
except ModuleNotFoundError as error:
    raise missing_extra(error) from None

__all__ = ["trainable"]
