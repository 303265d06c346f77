"""Contract of every registered environment; new entries of the registries are tested automatically."""

from __future__ import annotations

import dataclasses
import typing
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dprl.envs import ENVIRONMENTS, GAMES, LOGS, MDPS, MIXTURES, Env, EnvConfig, FiniteMDP, LinearMixtureMDP, MarkovGame
from dprl.envs.dynamics import roll_out

ALPHA = 1e-6
# Without a file there is nothing to build: tests/algorithms/test_logged_vi.py, tests/envs/test_linear_mixture.py.
NAMES = sorted({*ENVIRONMENTS} - {*LOGS, "control_log", "mixture_file"})
# Those that are arrays of transitions and rewards.
TABLES = sorted({*MDPS, *GAMES, *MIXTURES} - {"mixture_file"})
# The field that makes the environment large, where it is not n_states, and those whose horizon is their size.
SIZES = {
    "gridworld": "width",
    "deep_sea": "size",
    "gymnasium": "horizon",
    "rock_paper_scissors": "horizon",
    "soccer": "n_rows",
    "network_mdp": "n_intermediate",
    "cartpole_gravity": "n_gravities",
    "control": "horizon",
}
HORIZON_IS_SIZE = {"deep_sea"}
# Another value of each field that is neither a number nor a flag.
WORDS = {
    "map_name": "8x8",
    "layout": "four_rooms",
    "env_id": "CliffWalking-v1",
    "kwargs": "is_slippery=False",
    "signs": "positive",
    "payoffs": "biased",
    "memory": "none",
}
# Values that other fields need to be changed alone, or that make the environment small.
BASES: dict[str, dict[str, Any]] = {
    "network_mdp": {"gap": 0.01, "node_forward": 0.4, "dimension": 3, "signs": "random"},
    "soccer": {"n_rows": 2, "n_columns": 4},
}
# Environments that are too large by default to visit all transitions.
FEW_STATES: dict[str, dict[str, int]] = {"soccer": {"n_rows": 1, "n_columns": 4}}


def fields(name: str, kind: type | None = None) -> set[str]:
    """The keys of a spec; those of one type if it is given."""
    hints = typing.get_type_hints(ENVIRONMENTS[name])
    names = {field.name for field in dataclasses.fields(ENVIRONMENTS[name])}  # type: ignore[arg-type]
    return {field for field in names if kind is None or hints[field] is kind}


def size_field(name: str) -> str | None:
    """The field that makes the environment large; None for a plugin's environment of a fixed size."""
    field = SIZES.get(name, "n_states")
    is_fixed = field not in fields(name) and not ENVIRONMENTS[name].__module__.startswith("dprl.")
    return None if is_fixed else field


def spec(name: str, **changes: Any) -> EnvConfig[Env]:
    return ENVIRONMENTS[name](**changes)


@cache
def built(name: str) -> Env:
    """The default environment of a spec, to be read only, because the largest take seconds to build."""
    return spec(name).build()


def joint(env: Env) -> FiniteMDP:
    """The MDP of a game whose actions are pairs, of agents whose actions are all of theirs; an MDP itself."""
    if isinstance(env, MarkovGame):
        return env.joint
    if isinstance(env, LinearMixtureMDP):
        return env.joint()
    assert isinstance(env, FiniteMDP)
    return env


def arrays(env: Env) -> dict[str, bytes]:
    """The bits of all arrays of an environment."""
    holder = joint(env) if env.name in TABLES else env
    return {key: value.tobytes() for key, value in vars(holder).items() if isinstance(value, np.ndarray)}


@pytest.mark.parametrize("name", NAMES)
def test_the_spec_is_a_frozen_dataclass_under_its_own_name(name: str) -> None:
    default = spec(name)
    assert default.name == name
    assert default == spec(name)
    assert size_field(name) in {*fields(name), None}
    assert ("horizon" in fields(name)) == (name not in HORIZON_IS_SIZE)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(default, size_field(name) or "name", 3)


@pytest.mark.parametrize("name", NAMES)
def test_it_builds_what_it_says_under_its_name(name: str) -> None:
    env = built(name)
    builds: Any = ENVIRONMENTS[name].builds
    assert type(env) is builds
    assert env.name == name
    assert env.kind == env.kind.strip() != ""


@pytest.mark.parametrize("name", TABLES)
def test_arrays_are_a_valid_mdp_or_game(name: str) -> None:
    env: Any = built(name)
    mdp = joint(env)
    assert env.name == mdp.name == name
    assert (env.horizon, env.n_states) == (mdp.horizon, mdp.n_states) == mdp.rewards.shape[:2]
    np.testing.assert_allclose(mdp.transitions.sum(axis=-1), 1.0, rtol=1e-12)
    assert mdp.start.sum() == pytest.approx(1.0, rel=1e-12)
    assert ((mdp.rewards >= 0.0) & (mdp.rewards <= 1.0)).all()
    for cdf in (mdp.cdf, mdp.start_cdf):
        assert (cdf[..., -1] == 1.0).all()
        assert (np.diff(cdf, axis=-1) >= 0.0).all()
    np.testing.assert_allclose(np.diff(mdp.cdf, axis=-1, prepend=0.0), mdp.transitions, atol=1e-12)


@pytest.mark.parametrize("name", TABLES)
def test_equal_specs_build_equal_bits(name: str) -> None:
    one, two = arrays(built(name)), arrays(spec(name).build())
    assert one
    assert one == two


@pytest.mark.parametrize("name", [name for name in NAMES if "seed" in fields(name)])
def test_another_seed_is_another_environment(name: str) -> None:
    one, two = (joint(spec(name, seed=seed).build()) for seed in (1, 2))
    assert not np.array_equal(one.transitions, two.transitions)


@pytest.mark.parametrize(("name", "field"), [(n, field) for n in TABLES for field in sorted(fields(n) - {"table"})])
def test_every_field_changes_the_environment(name: str, field: str) -> None:
    base = BASES.get(name, {})
    value = getattr(spec(name, **base), field)
    other = not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else WORDS.get(field)
    changed = {**base, field: 0.9 * value if other is None else other}
    assert arrays(spec(name, **changed).build()) != arrays(spec(name, **base).build())


@pytest.mark.parametrize("name", [name for name in NAMES if "horizon" in fields(name)])
@pytest.mark.parametrize("horizon", [0, -1, 2.5, "ten", None, True, float("nan")])
def test_a_horizon_that_is_no_positive_integer_is_refused(name: str, horizon: object) -> None:
    with pytest.raises(ValueError, match=r"^horizon must be an integer of at least 1, got .*; set horizon"):
        spec(name, horizon=horizon)


@pytest.mark.parametrize(("name", "field"), [(n, f) for n in NAMES for f in sorted(fields(n, int)) if f != "horizon"])
def test_other_numbers_are_checked_too(name: str, field: str) -> None:
    for value in (-1, 1.0, "2"):
        with pytest.raises(ValueError, match=rf"^{field} must be an integer of at least \d") as error:
            spec(name, **{field: value})
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "field"), [(n, f) for n in NAMES for kind in (float, bool, str) for f in sorted(fields(n, kind))]
)
def test_fields_that_are_no_whole_numbers_are_checked_too(name: str, field: str) -> None:
    for value in (-1, 1e9, "?", None, float("nan")):
        with pytest.raises(ValueError, match=rf"^{field} must be .*, got .*; ") as error:
            spec(name, **{field: value})
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(("name", "field"), [(name, field) for name in TABLES if (field := size_field(name))])
def test_an_environment_beyond_memory_is_refused_before_it_is_built(name: str, field: str) -> None:
    with pytest.raises(ValueError, match=r"of at most \d+ entries, got .*; lower (horizon|size|n_states)"):
        spec(name, **{field: 100_000_000}, **({"kwargs": "max_episode_steps=100000000"} if name == "gymnasium" else {}))


def test_only_environments_of_plugins_may_have_a_fixed_size(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, expected in (("dprl.envs.duel", "n_states"), ("duel", None)):
        duel = dataclasses.make_dataclass("Duel", [("horizon", int, 4)], frozen=True, namespace={"__module__": module})
        monkeypatch.setitem(ENVIRONMENTS, "duel", duel)
        assert size_field("duel") == expected


def transition_counts(mdp: FiniteMDP, episodes: int, seed: int) -> NDArray[np.int64]:
    """Counts [H, S, A, S'] of roll-outs, each with a fresh uniformly random policy."""
    rng = np.random.default_rng(seed)
    counts = np.zeros(mdp.transitions.shape, np.int64)
    states, actions = np.empty(mdp.horizon + 1, np.int64), np.empty(mdp.horizon, np.int64)
    steps = np.arange(mdp.horizon)
    for _ in range(episodes):
        policy = rng.integers(0, mdp.n_actions, size=(mdp.horizon, mdp.n_states))
        roll_out(mdp.cdf, mdp.start_cdf, policy, rng.random(mdp.horizon + 1), states, actions)
        counts[steps, states[:-1], actions, states[1:]] += 1
    return counts


def fit_p_value(counts: NDArray[np.int64], transitions: NDArray[np.float64]) -> float:
    """Chi-square p-value of all rows together; outcomes expected fewer than 5 times are pooled per row."""
    statistic, freedom = 0.0, 0
    size = counts.shape[-1]
    for seen, law in zip(counts.reshape(-1, size), transitions.reshape(-1, size), strict=True):
        expected = seen.sum() * law
        rare = expected < 5.0
        cells = [*zip(seen[~rare], expected[~rare], strict=True)]
        if expected[rare].sum() >= 5.0:
            cells.append((seen[rare].sum(), expected[rare].sum()))
        elif cells:
            cells[0] = (cells[0][0] + seen[rare].sum(), cells[0][1] + expected[rare].sum())
        statistic += sum((o - e) ** 2 / e for o, e in cells)
        freedom += max(len(cells) - 1, 0)
    assert freedom > 10, "too few visits to say anything"
    return float(stats.chi2.sf(statistic, freedom))


@pytest.mark.parametrize("name", TABLES)
def test_frequencies_of_roll_outs_match_the_transitions(name: str) -> None:
    """False alarm in about 1e-6 of the seeds, an environment; the wrong law is rejected."""
    mdp = joint(spec(name, **FEW_STATES.get(name, {})).build())
    counts = transition_counts(mdp, 20_000, seed=0)
    assert (counts[mdp.transitions == 0.0] == 0).all()
    if not np.isin(mdp.transitions, (0.0, 1.0)).all():
        assert fit_p_value(counts, mdp.transitions) > ALPHA
    blurred = 0.95 * mdp.transitions + 0.05 / mdp.n_states
    assert fit_p_value(counts, blurred) < ALPHA


@pytest.mark.parametrize("name", TABLES)
def test_frequencies_of_the_first_state_match_the_start(name: str) -> None:
    mdp = joint(built(name))
    counts = transition_counts(mdp, 2_000, seed=1)[0].sum(axis=(1, 2))
    possible = mdp.start > 0.0
    assert (counts[~possible] == 0).all()
    if possible.sum() > 1:
        assert stats.chisquare(counts[possible], 2_000 * mdp.start[possible]).pvalue > ALPHA
