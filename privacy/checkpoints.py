"""Checkpoints of runs: arrays by name, sealed with digests, and checked before anything is changed."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

_FIXED, _DIGEST = "fixed", "digest"
_GROWING = "received"
"""The array with any number of rows."""


def check_arrays(state: Mapping[str, np.ndarray], own: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError unless `state` has an array for each of `own`, of the same shape and type."""
    for name, array in own.items():
        found, shape = state.get(name), array.shape[1:] if name == _GROWING else array.shape
        same = isinstance(found, np.ndarray) and found.ndim == array.ndim and found.dtype == array.dtype
        if not same or (found.shape[1:] if name == _GROWING else found.shape) != shape:  # type: ignore[union-attr]
            raise ValueError(f"the state's {name!r} is missing or of another shape; resume with the same settings")


def part_of(state: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays with names that begin with `prefix`, without it."""
    return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}


def digest_of(words: str, arrays: Mapping[str, np.ndarray]) -> npt.NDArray[np.uint8]:
    """Return a digest uint8[64] of words and of named arrays, independent of the order of the names."""
    digest = hashlib.blake2b(words.encode() + b"\0")
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        digest.update(f"|{name} {array.dtype.str}{array.shape}".encode() + array.tobytes())
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def sealed(fixed: str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return a state: copies of `arrays`, with digests of the settings, fixed in a run, and of the whole."""
    copies = {name: array.copy() for name, array in arrays.items()}
    return {_FIXED: digest_of(fixed, {}), _DIGEST: digest_of(fixed, copies), **copies}


def check_sealed(state: Mapping[str, np.ndarray], own: Mapping[str, np.ndarray], fixed: str) -> None:
    """Raise ValueError unless `sealed` returned `state` in a run of the same kind.

    Args:
        state: from a caller. own: from `sealed`, of the run that is to continue. fixed: of that run.
    """
    check_arrays(state, own)
    if not np.array_equal(state[_FIXED], own[_FIXED]):
        raise ValueError("the state is of other noise, another seed or other settings; resume with the same ones")
    arrays = {name: state[name] for name in own if name not in (_FIXED, _DIGEST)}
    if not np.array_equal(state[_DIGEST], digest_of(fixed, arrays)):
        raise ValueError("the state is not the one that was written; start anew")
