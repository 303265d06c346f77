"""DP-Nash-VI: optimistic Nash value iteration on private counts, self-play in two-player zero-sum Markov games.

With trust model none it is Nash-VI (Liu, Yu, Bai, Jin 2021) with a Bernstein bonus; on an MDP, a game in which the
min-player has one action, it is DP-UCBVI (Qiao, Wang 2023).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeVar, get_args

import numpy as np

from dprl.algorithms.base import REGRET, SATURATED, Float64Array, Metric, check_choice, check_number
from dprl.algorithms.dp_nash_vi.constants import ALWAYS_ENOUGH, Sizes, enough, least_scale
from dprl.algorithms.dp_nash_vi.planning import Bonus, Planner, Tables, plan
from dprl.algorithms.dp_nash_vi.users import GameSimulator, count_families, game_simulator, play, regret
from dprl.algorithms.tabular import TabularConfig, learning_loop
from dprl.envs import Env, FiniteMDP
from dprl.envs.games import MarkovGame
from dprl.envs.games.equilibria import LARGEST_VIOLATION
from dprl.privacy import CountFamilies, Privatizer, Streams

E = TypeVar("E", bound=Env)
Constants = Literal["given", "proved"]

GAP = Metric("gap", "last", "reward", of="deployed")
"""(V_up - V_lo)(s_1) of the policy deployed last: what is proved of its regret, on the good event."""
SMALLEST_GAP = Metric(
    name="smallest_gap",
    over="last",
    unit="reward",
    of="output",
    short="gap",
    definition="the least V_up - V_lo at the start of all plans of a run; where a theorem covers the run, it bounds "
    "the exploitability of that plan's policy, which is what the run gives out",
)
"""The same of the output policy."""
EXPLOITABILITY = Metric(
    name="exploitability",
    over="last",
    unit="reward",
    of="output",
    short="exploit.",
    definition="what best responses gain against the marginals of the policy that the run gives out, "
    "V^{dagger,nu} - V^{mu,dagger}, exact; regret in a game is its sum over the policies deployed",
)
"""V^{dagger,nu} - V^{mu,dagger}, exact, of the output policy's marginals."""
INFEASIBLE = Metric("infeasible", "last")
"""The share of cells of the last plan whose noisy counts eq. (8) of [QW24] cannot meet."""

run = learning_loop(plan, play, regret)


@dataclass(frozen=True)
class OptimisticNashConfig(TabularConfig[E]):
    """The settings of DP-Nash-VI, whatever environment becomes its game.

    Args:
        constants: those of the bonus, which the paper leaves open. 'given': C_1 = c1 and C_2 = c2. 'proved': both are
            the least number for which Theorem 1 of docs/dp_nash_vi.md proves the bounds with the noise that runs.
        c1, c2: at least 0; left out with 'proved'.
    """

    constants: Constants = "given"
    c1: float = 1.0
    c2: float = 1.0
    theorem: ClassVar[str | None] = "docs/dp_nash_vi.md, Theorem 1 (gap)"
    metrics: ClassVar[tuple[Metric, ...]] = (REGRET, SATURATED, GAP, SMALLEST_GAP, EXPLOITABILITY, INFEASIBLE)
    plan = staticmethod(plan)
    run = staticmethod(run)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choice("constants", self.constants, get_args(Constants))
        for key, value in (("c1", self.c1), ("c2", self.c2)):
            check_number(key, value, 0.0)
            if self.constants == "proved" and value != 1.0:
                raise ValueError(f"{key} must be left out with constants proved, got {value!r}; write constants: given")

    @property
    def covered_by(self) -> str | None:
        """The theorem that proves the bounds V_up and V_lo of all runs with these settings, whatever the noise."""
        scale = self.bonus_scale
        given = scale * self.c1 >= 1.0 and scale * self.c2 >= ALWAYS_ENOUGH
        proved = scale >= 1.0 if self.constants == "proved" else given
        return self.theorem if proved and self.precision_scale >= 1.0 else None

    @abstractmethod
    def game(self, env: E) -> MarkovGame:
        """Return the environment as a game."""

    def families(self, env: E) -> CountFamilies:
        """Return transitions and visits of pairs of actions."""
        return count_families(self.game(env))

    def simulator(self, env: E, episodes: int, streams: Streams) -> GameSimulator:
        """Return the game and its users."""
        return game_simulator(self.game(env), episodes, streams)

    def bonus(self, env: E, privatizer: Privatizer, episodes: int) -> Planner:
        """Return c (gamma + Gamma) as its coefficients, E, and what is known of the game.

        E is such that no count is off by more than E/4 (Assumption 3.1 by Lemma 5.8), with probability 1 - beta/3;
        iota = ln(30 H S A B K / beta).

        Paper: [QW24] Algorithm 1, lines 2, 8 and 9.
        """
        game = self.game(env)
        sizes = self._sizes(game, privatizer, episodes)
        c1, c2 = self._constants(sizes)
        bonus = Bonus(
            e=sizes.e,
            per_gap=c1 / sizes.horizon,
            per_deviation=c2 * math.sqrt(sizes.iota),
            per_count=c2 * sizes.horizon * sizes.n_states * sizes.iota * (sizes.e + sizes.horizon),
        )
        return Planner.of(game, bonus)

    def _sizes(self, game: MarkovGame, privatizer: Privatizer, episodes: int) -> Sizes:
        bounds = privatizer.precision(self.beta / 3).bounds
        iota = math.log(30.0 * game.rewards.size * episodes / self.beta)
        e = 4.0 * self.precision_scale * max(bounds["visits"], bounds["transitions"])
        return Sizes(game.n_states, game.horizon, episodes, e, iota)

    def _constants(self, sizes: Sizes) -> tuple[float, float]:
        """Return C_1 and C_2 with bonus_scale multiplied in."""
        c1, c2 = self.c1, self.c2
        if self.constants == "proved":
            c1 = c2 = least_scale(sizes)
        return self.bonus_scale * c1, self.bonus_scale * c2

    def covered(self, env: E, privatizer: Privatizer, episodes: int) -> str | None:
        """Return the theorem that proves the bounds V_up and V_lo of a run, on any schedule of plans."""
        sizes = self._sizes(self.game(env), privatizer, episodes)
        proved = self.precision_scale >= 1.0 and enough(*self._constants(sizes), sizes)
        return self.theorem if proved else self.covered_by

    def derived(self, env: E, privatizer: Privatizer, episodes: int) -> dict[str, float]:
        """Return C_1 and C_2 as they run, with bonus_scale multiplied in, and E."""
        sizes = self._sizes(self.game(env), privatizer, episodes)
        c1, c2 = self._constants(sizes)
        return {"c1": c1, "c2": c2, "e": sizes.e}

    def tables(self, env: E, episodes: int) -> Tables:  # noqa: ARG002
        """Return the tables before any plan."""
        return Tables.first(self.game(env))

    def measure(self, simulator: GameSimulator, tables: Tables) -> dict[str, float]:
        """Return gap, smallest gap, exploitability and infeasible share.

        Raises RuntimeError if an equilibrium was missed: no bound would hold.
        """
        if tables.missed[0] != 0.0:
            raise RuntimeError(
                f"equilibria must be met to {LARGEST_VIOLATION:g} of the largest payoff, got {tables.missed[0]:.0f} "
                "that are not; report this experiment"
            )
        return {
            GAP.name: float(tables.gap[0]),
            SMALLEST_GAP.name: float(tables.smallest_gap[0]),
            EXPLOITABILITY.name: float(regret(simulator, tables.output)),
            INFEASIBLE.name: float(tables.infeasible[0]),
        }


@dataclass(frozen=True)
class DPNashVIConfig(OptimisticNashConfig[MarkovGame]):
    """DP-Nash-VI, optimistic Nash value iteration on private counts ([QW24] Algorithm 1; with model none, Nash-VI)."""

    name: ClassVar[str] = "dp_nash_vi"
    plays: ClassVar[type[Env]] = MarkovGame

    def game(self, env: MarkovGame) -> MarkovGame:
        """Return the game itself."""
        return env

    def policies(self, tables: Tables) -> dict[str, np.ndarray]:
        """Return pi^out float64[H, S, A, B] as 'policy', and its marginals 'max_player' and 'min_player'.

        Paper: [QW24] Algorithm 1, line 24.
        """
        output = tables.output.copy()
        return {"policy": output, "max_player": output.sum(axis=3), "min_player": output.sum(axis=2)}


@dataclass(frozen=True)
class DPUCBVIConfig(OptimisticNashConfig[FiniteMDP]):
    """DP-UCBVI (Qiao, Wang 2023), value iteration with a Bernstein bonus: DP-Nash-VI without a second player."""

    name: ClassVar[str] = "dp_ucbvi"
    plays: ClassVar[type[Env]] = FiniteMDP

    def game(self, env: FiniteMDP) -> MarkovGame:
        """Return the MDP as a game with B = 1."""
        return MarkovGame.from_mdp(env)

    def policy(self, tables: Tables) -> Float64Array:
        """Return the policy deployed last, float64[H, S, A]."""
        return tables.policy[..., 0].copy()

    def policies(self, tables: Tables) -> dict[str, np.ndarray]:
        """Return pi^out, float64[H, S, A]."""
        return {"policy": tables.output[..., 0].copy()}
