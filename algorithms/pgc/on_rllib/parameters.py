"""Parameters of RLModules as flat vectors."""

from __future__ import annotations

import torch

from dprl.algorithms.base import Float64Array


def n_parameters(module: torch.nn.Module) -> int:
    """Return d, the number of parameters of a module."""
    return sum(parameter.numel() for parameter in module.parameters())


def read_parameters(module: torch.nn.Module) -> Float64Array:
    """Return the parameters of a module one after the other, a copy float64[d]."""
    with torch.no_grad():
        parts = [parameter.detach().reshape(-1).to("cpu", torch.float64) for parameter in module.parameters()]
        flat: Float64Array = torch.cat(parts).numpy()
    return flat


def write_parameters(module: torch.nn.Module, flat: Float64Array) -> None:
    """Write float64[d] into the parameters of a module, in its own precision. Raises ValueError for another d."""
    expected = n_parameters(module)
    if flat.shape != (expected,):
        rule = f"parameters must be float64[{expected}] for this module"
        raise ValueError(f"{rule}, got shape {flat.shape}; flatten them")
    source = torch.tensor(flat, dtype=torch.float64)
    with torch.no_grad():
        start = 0
        for parameter in module.parameters():
            end = start + parameter.numel()
            parameter.copy_(source[start:end].reshape(parameter.shape))
            start = end
