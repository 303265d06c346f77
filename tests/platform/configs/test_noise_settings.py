"""`noise:`, `release:` and `audit:` in a config: their meaning, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.errors import UserError
from dprl.privacy import NoiseConfig

RAW: dict[str, Any] = {
    "name": "try",
    "algorithm": {"name": "private_ucb_vi"},
    "env": {"name": "riverswim", "n_states": 3, "horizon": 4},
    "privacy": {"model": "jdp", "epsilon": 1.0},
    "episodes": 100,
    "seeds": 1,
}
FIT = {"arithmetic": "exact", "entropy": "os"}


def cell(**changes: object) -> Experiment:
    return read_experiment({**RAW, **changes})


def test_noise_is_fast_and_seeded_unless_something_else_is_asked_for() -> None:
    assert cell().noise == NoiseConfig("fast", "seed")
    assert cell(noise={"arithmetic": "exact"}).noise == NoiseConfig("exact", "seed")
    assert cell().resumable
    assert not cell(noise={"entropy": "os"}).resumable


def test_release_means_exact_and_os() -> None:
    assert cell(release=True).noise == NoiseConfig("exact", "os")
    for written in (FIT, {"arithmetic": "exact"}, {"entropy": "os"}, {}):
        assert cell(release=True, noise=written) == cell(release=True)
    assert cell(release=False).noise == NoiseConfig()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"release": True, "noise": {"arithmetic": "fast", "entropy": "os"}}, "release: must be false with noise"),
        ({"release": True, "noise": {"arithmetic": "fast"}}, "release: must be false with noise"),
        ({"release": True, "noise": {"entropy": "seed"}}, "release: must be false with noise"),
        ({"release": True, "privacy": {"model": "none"}}, "release: must be false with model none"),
        (
            {"release": True, "privacy": {"model": "ldp", "epsilon": 1.0, "calibration": "printed"}},
            "release: must be false with printed noise",
        ),
        ({"release": "yes"}, "release: must be true or false"),
        ({"audit": 1}, "audit: must be true or false"),
        ({"noise": {"entropy": "urandom"}}, "noise.entropy: must be one of seed, os"),
        ({"noise": {"arithmetik": "exact"}}, "noise.arithmetik: unknown key; did you mean 'arithmetic'"),
        ({"noise": "exact"}, "noise: must be a mapping"),
    ],
)
def test_anything_else_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as caught:
        cell(**changes)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("privacy", "message"),
    [
        ({"model": "jdp", "epsilon": 1.0, "mechanism": "gaussian"}, "Gaussian noise needs a delta above 0"),
        (
            {"model": "ldp", "epsilon": 1.0, "families": "separate", "mechanism": "sampled_optimized_unary_encoding"},
            "use families: one_hot",
        ),
    ],
)
def test_settings_that_do_not_fit_together_are_refused_before_anything_runs(
    privacy: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        cell(privacy=privacy, noise={"arithmetic": "exact"}).certificate()


def test_the_certificate_says_how_the_noise_is_drawn() -> None:
    fast, exact = cell().certificate().to_dict(), cell(release=True).certificate().to_dict()
    assert {(n["arithmetic"], n["entropy"]) for n in fast["noise"]} == {("float64-idealised", "seeded")}
    assert {(n["arithmetic"], n["entropy"]) for n in exact["noise"]} == {("integer", "os")}
    told = [" ".join(certificate["excluded_channels"]) for certificate in (fast, exact)]
    assert "random seed" in told[0]
    assert "floating-point" in told[0]
    assert "random seed" not in told[1]
    assert "floating-point" not in told[1]


def test_how_noise_is_drawn_keeps_streams_apart_and_an_audit_does_not() -> None:
    assert cell(noise={"arithmetic": "exact"}).streams_context != cell().streams_context
    assert cell(audit=True).streams_context == cell().streams_context
    assert cell(audit=True).digest != cell().digest
