"""Policies that runs left behind: as plain callables, and as RLModules that RLlib evaluates."""

from __future__ import annotations

from dprl.platform.policies.tabular import TabularPolicy, load_policy

# rl_module is not imported here: torch and RLlib take seconds, and a plain callable needs neither.
__all__ = ["TabularPolicy", "load_policy"]
