"""Digests of environments without a file: other code or another captured value is another environment."""

from __future__ import annotations

import hashlib
import importlib
import os
import re
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from dprl.envs import Control
from dprl.platform.environments import register_env

CELL = """
import gymnasium, numpy as np
UNIT = {unit}
def paid(action):
    return float(action) * (UNIT if isinstance(UNIT, float) else 1.0)
class Pay(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-5.0, 5.0, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {{}}
    def step(self, action):
        return np.zeros(1, np.float32), paid(action) + {bonus}, False, False, {{}}
    def close(self):
        return ENDED
ENDED = {ended}
"""


def source(creator: Any, **kwargs: Any) -> str:
    gymnasium.registry.pop("Mine-v0", None)
    gymnasium.register("Mine-v0", creator, max_episode_steps=10, kwargs=kwargs)
    return Control("Mine-v0", horizon=5).source


def cell(file: str = "<ipython-input-1>", unit: object = 1.0, bonus: object = 0.0, ended: object = 0) -> Any:
    """The class Pay after a cell of a notebook has run. Its module has a file, which does not count."""
    found: dict[str, Any] = {"__name__": __name__}
    exec(compile(CELL.format(unit=unit, bonus=bonus, ended=ended), file, "exec"), found)
    return found["Pay"]


@pytest.mark.parametrize("file", ["<ipython-input-1>", "<string>", "/nowhere/ipykernel_1/2.py"])
def test_a_class_without_a_file_has_the_digest_of_its_code_and_values(file: str) -> None:
    first = source(cell(file))
    assert source(cell(file)) == source(cell("<stdin>")) == first
    assert len({first, source(cell(file, bonus=1.0)), source(cell(file, unit=2.0)), source(cell(file, ended=1))}) == 4
    assert source(cell(file, unit="np.array([1.0])")) != source(cell(file, unit="np.array([2.0])"))
    assert source(cell(file, unit="np.float32(1)")) == source(cell(file, unit="np.float32(1)")) != first


def test_a_base_and_a_class_attribute_without_a_file_count() -> None:
    def below(base: type) -> type:
        return type("Below", (base,), {"__module__": "__main__", "size": 3})

    assert source(below(cell())) == source(below(cell())) != source(below(cell(bonus=1.0)))
    other = below(cell())
    other.size = 4  # type: ignore[attr-defined]
    assert source(other) != source(below(cell()))


def test_values_in_closures_defaults_and_arguments_count() -> None:
    made: list[Callable[[Any], Any]] = [_closure, _default, _wrapper, _method]
    digests = [source(each(factor)) for each in made for factor in (1.0, 2.0)]
    assert len(set(digests)) == 2 * len(made)
    assert digests == [source(each(factor)) for each in made for factor in (1.0, 2.0)]
    assert source(_scaled, factor=1.0) != source(_scaled, factor=2.0)


class _Scaled(gymnasium.RewardWrapper[Any, Any]):
    def __init__(self, factor: float = 1.0) -> None:
        super().__init__(gymnasium.make("CartPole-v1"))
        self.factor = factor

    def reward(self, reward: Any) -> float:
        return float(reward) * (self.factor if isinstance(self.factor, float) else 1.0)


def _scaled(factor: float) -> Any:
    return _Scaled(factor)


def _closure(factor: float) -> Any:
    return lambda: _Scaled(factor)


def _default(factor: float) -> Any:
    return lambda f=factor: _Scaled(f)


def _wrapper(factor: float) -> Any:
    def make() -> Any:
        class Local(gymnasium.RewardWrapper[Any, Any]):
            def reward(self, reward: Any) -> float:
                return float(reward) * factor

        return Local(gymnasium.make("CartPole-v1"))

    return make


def _method(factor: float) -> Any:
    class Local(_Scaled):
        def reward(self, reward: Any) -> float:
            return float(reward) * factor

    return partial(Local)


def test_a_class_in_a_file_has_the_digest_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for env_id in ("CartPole-v1", "FrozenLake-v1", "Pendulum-v1"):
        file = Path(sys.modules[type(gymnasium.make(env_id).unwrapped).__module__].__file__ or "")
        assert Control(env_id, horizon=5).source == hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "my_pay.py"
    for unit in (1.0, 2.0):
        file.write_text(CELL.format(unit=unit, bonus=0.0, ended=0) + "class Sub(Pay):\n    size = 3\n")
        importlib.invalidate_caches()
        os.utime(file, (2.0**30 + unit, 2.0**30 + unit))
        module = importlib.reload(importlib.import_module("my_pay"))
        for creator in (module.Pay, module.Sub, "my_pay:Pay"):
            assert source(creator) == hashlib.sha256(file.read_bytes()).hexdigest()[:12]


@pytest.mark.parametrize(("value", "other"), [(np.exp, np.log), (re.compile("a+"), re.compile("b+")), ({1, 2}, {1, 3})])
def test_values_that_pickle_reduces_by_their_class_count(value: Any, other: Any) -> None:
    assert source(_closure(value)) == source(_closure(value)) != source(_closure(other))


def test_a_value_that_has_no_digest_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^env_id must be an environment that reads only values that can be pickled"):
        source(_closure(threading.Lock()))  # type: ignore[arg-type]


def test_a_changed_registration_is_another_environment() -> None:
    """Of one name, in one process."""
    seen = []
    for bonus in (1.0, 2.0, 1.0):
        register_env("Cell-v0", cell(bonus=bonus), max_episode_steps=10)
        seen.append(Control("Cell-v0", horizon=5).source)
    assert seen[0] == seen[2] != seen[1]
