"""Errors of users' environments: with noise for real users, no part of an error leaves their side."""

from __future__ import annotations

import ctypes
import logging
import os
import subprocess
import sys
import warnings
from typing import Any

import pytest

from dprl.algorithms import DPPGConfig
from dprl.algorithms.dppg.algorithm import SCORE
from dprl.algorithms.pgc.user_code import error_barrier, silent
from dprl.envs import Control, ControlTask
from dprl.privacy import GradientPrivacy, NoiseConfig, Streams
from dprl.privacy.threat_models import CARRIED

SECRET = "the user of state 42"


def learner(noise: NoiseConfig) -> Any:
    config, env = DPPGConfig(users_per_update=5, hidden="4"), Control(horizon=10).build()
    streams = Streams(0, "users", noise)
    privatizer = config.privatizer(env, GradientPrivacy("jdp", 1.0, 1e-6, "clipped_gaussian"), 20, streams)
    return config.build(env, privatizer, 20, streams)


def say_it_everywhere() -> None:
    """Write by every way of Python, of C with its buffer, and of another process."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
        print(SECRET, file=stream)
    for descriptor in (1, 2):
        os.write(descriptor, SECRET.encode())
    ctypes.CDLL(None).printf(b"%s", SECRET.encode())
    subprocess.run([sys.executable, "-c", f"print({SECRET!r})"], check=True)
    logging.getLogger("env").critical(SECRET)
    warnings.warn(SECRET, stacklevel=1)


@pytest.mark.filterwarnings("default:the user of state 42")
@pytest.mark.parametrize("fit", [True, False])
@pytest.mark.parametrize("evaluating", [True, False])
def test_errors_and_prints_of_users_stay_with_them(
    fit: bool, evaluating: bool, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    noise = NoiseConfig(arithmetic="exact", entropy="os") if fit else NoiseConfig()
    made, play = learner(noise), ControlTask.play

    def broken(*arguments: Any, checked: bool, **options: Any) -> Any:
        found = play(*arguments, checked=checked, **options)
        if checked is not evaluating:
            return found
        say_it_everywhere()
        raise ValueError(SECRET)

    monkeypatch.setattr(ControlTask, "play", broken)
    with pytest.raises((RuntimeError, ValueError)) as caught:
        made.learn(20)
    os.write(1, b"heard again")
    ctypes.CDLL(None).fflush(None)
    shown = capfd.readouterr()
    said = f"{caught.value!r} {caught.value.__context__!r} {caught.value.__cause__!r} {shown.out} {shown.err}"
    assert (SECRET in said) is not fit
    assert fit == ("data has left their side" in said or "texts of its environment are not shown" in said)
    assert "heard again" in shown.out


class _Loud:
    """An object of a user's environment that speaks when it is freed."""

    def __del__(self) -> None:
        print(SECRET)


def test_objects_of_a_failed_episode_are_not_heard_when_they_are_freed(capfd: pytest.CaptureFixture[str]) -> None:
    def step() -> None:
        held = _Loud()
        raise ValueError(f"{SECRET} {held}")

    with learner(NoiseConfig(arithmetic="exact", entropy="os"))._user_code(heard=False):
        step()
    shown = capfd.readouterr()
    assert SECRET not in shown.out + shown.err


def test_an_interrupt_passes_without_the_texts_that_a_user_was_handling() -> None:
    def step() -> None:
        try:
            raise ValueError(SECRET)
        except ValueError:
            raise KeyboardInterrupt(SECRET)  # noqa: B904 - as Ctrl-C there

    with pytest.raises(KeyboardInterrupt) as caught, error_barrier():
        step()
    assert (caught.value.args, caught.value.__context__, caught.value.__cause__) == ((), None, None)


def test_nothing_is_heard_until_the_last_block_of_all_threads_has_ended(capfd: pytest.CaptureFixture[str]) -> None:
    first, second = silent(), silent()
    for block in (first, second):
        block.__enter__()
    first.__exit__(None, None, None)
    os.write(1, SECRET.encode())
    second.__exit__(None, None, None)
    os.write(2, b"heard again")
    shown = capfd.readouterr()
    assert (SECRET in shown.out, shown.err) == (False, "heard again")


def test_what_an_environment_carries_is_named_and_reaches_no_evaluation() -> None:
    made = learner(NoiseConfig())
    made.learn(20)
    assert CARRIED in made.certificate().to_dict()["excluded_channels"]
    assert {sampled for _, sampled in made._vectors} == {False, True}


def test_an_environment_is_tried_before_there_are_users(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ValueError("a mistake in the environment")

    monkeypatch.setattr(ControlTask, "play", broken)
    with pytest.raises(ValueError, match="a mistake in the environment"):
        learner(NoiseConfig(arithmetic="exact", entropy="os"))


def test_the_score_of_a_segment_is_the_mean_of_its_users() -> None:
    """So the scores of two segments, weighted by their users, add up to that of both."""
    whole, parts = learner(NoiseConfig()), learner(NoiseConfig())
    scores = [(users, parts.learn(users)[SCORE.name]) for users in (3, 12, 5)]
    summed = sum(users * score for users, score in scores)
    assert summed == pytest.approx(20 * whole.learn(20)[SCORE.name], rel=1e-12)
    assert len({score for _, score in scores}) > 1
