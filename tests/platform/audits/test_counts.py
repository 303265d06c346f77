"""`dprl audit`: its output, its exit codes, and bad input."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dprl.platform.audits import COUNT_PROBES, audit_experiment, count_privatizer
from dprl.platform.command_line import main
from dprl.platform.configs.config import load_cells
from dprl.platform.configs.experiment import Experiment
from dprl.platform.reports.audits import block, outcome
from dprl.privacy.audits.findings import Claim, Finding, Measurement, NoiseProof

RUNS = "3000"
CONFIG = """
name: audited
algorithm: {name: private_ucb_vi}
env: {name: riverswim, n_states: 3, horizon: 4}
privacy: {model: ldp, epsilon: 4.0, families: separate, mechanism: laplace}
episodes: 100
seeds: 1
"""


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "audited.yaml"
    path.write_text(CONFIG)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["audit", *words])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def cell(config: str, *overrides: str) -> Experiment:
    (found,) = load_cells(config, overrides)
    return found


def test_a_certified_cell_is_not_refuted(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, config, "--runs", RUNS)
    assert code == 0
    assert "NOT REFUTED: claimed 4" in out
    assert "proved      pure epsilon 4 (exact)" in out
    assert "wrong with probability 5e-07 at most" in out
    assert "last bits   those of float64 noise can reveal data: the proof is for real" in out
    assert max(map(len, out.splitlines())) <= 120


def test_a_printed_cell_is_refuted_whatever_comes_after_it(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    both = "privacy.calibration={grid_search: [printed, certified]}"
    code, out, _ = run(capsys, config, "--set", both, "--runs", "20000")
    assert code == 1
    printed, certified = out.split("NOT REFUTED: claimed 4")
    assert "REFUTED: claimed 4" in printed
    assert "the claim fails" in printed
    assert "claims fail in 1 of 2 audited" in certified


def test_a_bound_at_what_the_runs_can_show_says_so(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, config, "--set", "privacy.epsilon=200", "--runs", RUNS)
    assert "(the most that 3,000 runs can show)" in out.splitlines()[0]
    _, out, _ = run(capsys, config, "--runs", RUNS)
    assert "can show" not in out


def test_no_privacy_claims_nothing(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, config, "--set", "privacy={model: none}")
    assert code == 0
    assert "NO PRIVACY" in out
    assert "measured" not in out


def test_json_of_a_config(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    privacy = "privacy={grid_search: [{model: none}, {model: jdp, epsilon: 1}]}"
    code, out, _ = run(capsys, config, "--json", "--runs", RUNS, "--set", privacy)
    data = json.loads(out)
    assert code == 0
    assert [len(one["findings"]) for one in data] == [1, 2]
    assert data[0]["findings"][0]["claim"]["epsilon"] == "inf"
    assert data[0]["summary"]["verdict"] == "not sampled"
    assert data[1]["summary"]["verdict"] == "not refuted"
    assert data[1]["parameters"]["privacy.epsilon"] == 1.0
    assert data[0]["last_bits"] is None
    assert "float64" in data[1]["last_bits"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "is required"),
        (("smok",), "did you mean 'smoke'?"),
        (("smoke", "--runs", "many"), "Invalid value for --runs"),
        (("smoke", "--runs", "1e400"), "Invalid value for --runs"),
        (("smoke", "--runs", "3"), 'Invalid value "3" for --runs. Must be >= 100'),
        (("smoke", "--seed", "-1"), 'Invalid value "-1" for --seed. Must be >= 0'),
        (("smoke", "--papers"), "must be left out with --papers"),
        (("--papers", "--runs", "1000"), "must be left out with --papers"),
        (("smoke", "--set", "privacy={model: ldp, epsilon: 0}"), "epsilon"),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], words: tuple[str, ...], told: str) -> None:
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    assert told in err
    assert len(err.splitlines()) == 1


def test_the_same_seed_gives_the_same_findings(config: str) -> None:
    experiment = cell(config)
    first, again = (audit_experiment(experiment, runs=1000, seed=7) for _ in range(2))
    assert [one.to_dict() for one in first] == [one.to_dict() for one in again]
    other = audit_experiment(experiment, runs=1000, seed=8)
    assert first[0].measurement != other[0].measurement


@pytest.mark.parametrize("arithmetic", ["fast", "exact"])
def test_either_arithmetic_is_audited(config: str, arithmetic: str) -> None:
    noise = f"noise={{arithmetic: {arithmetic}, entropy: os}}"
    findings = audit_experiment(cell(config, noise), runs=1000)
    assert [one.verdict for one in findings] == ["not refuted"] * 2


def test_a_proof_below_what_is_measured_is_a_violation(
    config: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A true claim beside a proof of a smaller epsilon than that of the noise."""
    monkeypatch.setattr("dprl.platform.audits.proof_of", lambda *_, **__: NoiseProof(0.5, None, 0.5, 0.0))
    code, out, _ = run(capsys, config, "--runs", "20000")
    assert code == 1
    assert "THE PROOF IS WRONG: claimed 4, measured epsilon >= " in out


def test_the_probe_is_made_of_what_the_algorithm_counts(config: str) -> None:
    experiment = cell(config, "env.n_states=6", "env.horizon=20")
    made: Any = experiment.privatizer()
    needed, probe = made.query.families, count_privatizer(experiment, 2, 5).query.families
    assert [family.name for family in probe.families] == [family.name for family in needed.families]
    assert [family.marginal_of for family in probe.families] == [family.marginal_of for family in needed.families]
    assert (probe.n_steps, probe.paper) == (2, needed.paper)
    assert probe.block < needed.block


@pytest.mark.parametrize(
    ("privacy", "chosen"),
    [
        ("{model: ldp, epsilon: 1, families: one_hot}", "sampled_optimized_unary_encoding"),
        ("{model: ldp, epsilon: 20, families: one_hot}", "sampled_direct_encoding"),
        ("{model: shuffle, epsilon: 1, delta: 1e-6}", "sampled_direct_encoding"),
        ("{model: jdp, epsilon: 1, delta: 1e-6, counter: auto}", "buffered_toeplitz gaussian"),
    ],
)
def test_the_probe_has_the_noise_of_the_cell(privacy: str, chosen: str, config: str) -> None:
    """Not what 'auto' would choose for the probe's few users."""
    growth = 0.01 if "shuffle" in privacy else 0.0
    episodes = 1000 if "20" in privacy else 20_001
    experiment = cell(config, f"privacy={privacy}", f"episodes={episodes}", f"algorithm.replan_growth={growth}")
    made: Any = experiment.privatizer()
    probes: list[Any] = [count_privatizer(experiment, horizon, few) for horizon, few in COUNT_PROBES]
    for query in [one.query for one in (made, *probes)]:
        names = [query.report.name] if query.report else [query.counter.name, query.counter.node.name]
        assert " ".join(names) == chosen


def test_the_last_line_names_five_that_fail_and_counts_the_others() -> None:
    assert outcome("abcdef", 9).endswith("fail in 6 of 9 audited, by proof or by sampling: a; b; c; d; e; and 1 more")


@pytest.mark.parametrize(
    ("bounds", "told"),
    [
        ([(0.5, 0.2), (1.5, 0.1), (1.0, 0.3)], "NOT REFUTED: claimed (2, 0.3), measured epsilon >= 1.5"),
        ([(2.5, 0.0), (3.0, 0.0), (1.0, 0.0)], "REFUTED: claimed (2, 0.3), measured epsilon >= 3"),
        ([(2.5, 0.0, 9.0), (2.1, 0.0), (0.0, 0.0)], "REFUTED: claimed (2, 0.3), measured epsilon >= 2.1"),
        (
            [(8.8, 0.0, 9.0), (8.5, 0.0, 9.0, 8.0), (0.0, 0.0)],
            "THE PROOF IS WRONG: claimed (2, 0.3), measured epsilon >= 8.5",
        ),
        ([(0.0, 0.31), (0.0, 0.4), (0.0, 0.2)], "REFUTED: claimed (2, 0.3), measured delta >= 0.4"),
    ],
)
def test_the_first_line_has_the_measurement_that_decides(bounds: list[tuple[float, ...]], told: str) -> None:
    """One that refutes, else one that contradicts the proof, else any: of these the largest, wherever it stands."""

    def finding(epsilon: float, delta: float, claimed: float = 2.0, proved: float = 9.0) -> Finding:
        claim, proof = Claim(2.0, 0.3, "paper"), NoiseProof(proved, "upper", proved, 1.0)
        there = Measurement("two worlds", "a probe", Claim(claimed, 0.3, "a probe"), proof, epsilon, delta, 0.975, 1000)
        return Finding("one", "noise", claim, proof, there)

    findings = [finding(*bound) for bound in bounds]
    for order in (findings, findings[::-1]):
        assert " ".join(block("one", order).split()).startswith(f"one: {told}")
