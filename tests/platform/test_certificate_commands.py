"""`dprl verify`, `dprl compose` and planned counts, on the command line and in Python."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

import dprl
from dprl.platform.command_line import main
from dprl.privacy.certificate import sealed

pytestmark = pytest.mark.usefixtures("one_drawing")

PLAN = ["certify", "--mechanism", "gaussian", "--epsilon", "1", "--delta", "1e-6", "--users", "1000", "--horizon", "5"]


def planned(**changes: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"mechanism": "gaussian", "epsilon": 1.0, "delta": 1e-6, "users": 1000, "horizon": 5}
    [found] = dprl.certify(**settings | changes)
    return found.to_dict()


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Return the path of a certificate in a cell's folder."""
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(planned()))
    return str(path)


def test_a_plan_is_the_certificate_of_its_noise(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(PLAN) == 0
    assert "certified noise proves 1 at delta 1e-06, claimed 1" in capsys.readouterr().out
    assert main([*PLAN, "--json"]) == 0
    text = capsys.readouterr().out
    assert json.loads(text) == [planned()]
    (tmp_path / "plan.json").write_text(text)
    assert main(["verify", str(tmp_path / "plan.json")]) == 0
    assert "plan.json[0]: consistent. HOLDS" in capsys.readouterr().out
    local = planned(model="ldp", mechanism="sampled_optimized_unary_encoding", families="one_hot", delta=0.0)
    assert (local["trust_model"], local["verdict"]) == ("ldp", "holds")
    assert local["proved"]["pure_epsilon"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["certify"], "CONFIG: is required, got nothing"),
        (["certify", "smoke", "--users", "5"], "--users: is for planned counts, without CONFIG, got 5"),
        (
            ["certify", "--epsilon", "1", "--users", "5"],
            "horizon: is required, got nothing; add horizon: <a whole number>",
        ),
        (["certify", "--users", "1.5", "--horizon", "5"], "Invalid value for --users: "),
        (["certify", "--users", "5", "--horizon", "5"], "privacy.epsilon: is required"),
        (["certify", "--users", "5", "--horizon", "5", "--epsilon", "x"], "Invalid value for --epsilon: "),
        (["certify", "--set", "a=1", "--users", "5"], "--set: is for a config"),
        ([*PLAN, "--model", "jpd"], "privacy.model: must be a registered .*, got 'jpd'; did you mean 'jdp'"),
        (["verify", "missing.json"], r"CERT: file not found, got 'missing.json'; name a certificate.json"),
        (["verify", "."], r"CERT: certificate.json not found, got '\.'"),
        (["verify", "broken.json"], r"CERT: must be valid JSON .* \(Expecting .* line 1 .*\), got 'broken.json'"),
        (
            ["verify", "twice.json"],
            r"CERT: must be valid JSON with each field once \('.*' is stated more than once\), got 'twice.json'",
        ),
        (["verify", "empty.json"], "CERT: must contain at least one certificate, got 'empty.json'"),
        (["verify", "typed.json"], "typed.json: a certificate must have all fields .*, got an invalid value"),
        (["verify", "list.json"], r"list.json\[0\]: a certificate must be a mapping"),
        (["verify", "old.json"], "got dprl.certificate/4 of dprl 0.2.0; run it again"),
        (["compose", "old.json"], "got dprl.certificate/4 of dprl 0.2.0; run it again"),
        (["compose", "changed.json"], "CERT: changed.json must stand to be composed, got one where checksum"),
        (["compose", "one.json", "ldp.json"], "CERT: trust_model must be the same in all of them, got 'jdp' and 'ldp'"),
        (["compose", "one.json", "./one.json"], "must name each run once: .*, got 'one.json'; name the certificate"),
        (["compose", "one.json", "--out", "no/where/x.json"], "--out: must be a file that can be written"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("no").write_text("")
    Path("broken.json").write_text("{")
    Path("twice.json").write_text('{"verdict": "holds", "verdict": "fails"}')
    Path("list.json").write_text("[3]")
    Path("empty.json").write_text("[]")
    Path("typed.json").write_text(json.dumps(planned() | {"users": "many"}))
    Path("old.json").write_text(json.dumps(planned() | {"schema": "dprl.certificate/4", "version": "0.2.0"}))
    Path("one.json").write_text(json.dumps(planned()))
    Path("both.json").write_text(json.dumps([planned(), planned()]))
    Path("changed.json").write_text(json.dumps(planned() | {"users": 3}))
    Path("ldp.json").write_text(json.dumps(planned(model="ldp", mechanism="laplace", delta=0.0)))
    assert main(words) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.count("\n") == 1
    assert re.search(message, shown.err), shown.err


def test_a_folder_is_verified_and_a_changed_number_found(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(Path(file).parent)]) == 0
    other = planned()
    other["proved"]["epsilon_at_delta"]["1e-06"] = 0.5
    Path(file).write_text(json.dumps(sealed(other)))
    capsys.readouterr()
    assert main(["verify", file]) == 1
    text = capsys.readouterr().out
    assert f"{file}: INCONSISTENT\n  proved.epsilon_at_delta.1e-06 is 0.5, recomputed " in text
    assert "\nTaken as stated: algorithm, request, users, " in text
    assert main(["verify", file, "--json"]) == 1
    [told] = json.loads(capsys.readouterr().out)
    assert (told["certificate"], told["stands"]) == (file, False)
    assert [each["field"] for each in told["differences"]] == ["proved.epsilon_at_delta.1e-06"]
    assert {"request", "users", "composition"} <= set(told["taken_as_stated"])


def test_what_runs_prove_together_is_a_certificate(
    file: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, root: Path
) -> None:
    both, other = str(tmp_path / "both.json"), str(tmp_path / "other.json")
    Path(other).write_text(Path(file).read_text())
    assert main(["compose", file, other, "--out", both]) == 0
    text = capsys.readouterr().out
    assert "composed noise proves 1.404 at delta 2e-06, claimed 2" in text
    assert "epsilon 1.455 at delta 1e-06" in text
    assert "\nAssumed, not checked: that the runs drew independent noise." in text
    assert main(["verify", both]) == 0
    capsys.readouterr()
    assert main(["compose", both, file, "--disjoint", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    Draft202012Validator(json.loads((root / "docs" / "certificate.schema.json").read_text())).validate(told)
    assert told["composition"]["kind"] == "disjoint"
    assert told["users"] == 2000
    assert dprl.verify(told).stands


def test_python_takes_paths_contents_and_certificates(file: str) -> None:
    [plan] = dprl.certify(mechanism="gaussian", epsilon=1.0, delta=1e-6, users=1000, horizon=5)
    together = dprl.compose(plan, file, plan.to_dict())
    assert dprl.verify(together).stands
    assert together.proved_epsilon < 3.0
    with pytest.raises(dprl.UserError, match="must stand to be composed"):
        dprl.compose(plan.to_dict() | {"users": 3})


def test_a_sweep_stands_for_its_finished_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DPRL_HOME", str(tmp_path))
    config = {"algorithm": "private_ucb_vi", "env": {"name": "riverswim", "n_states": 3, "horizon": 2}}
    privacy = dprl.grid(model="jdp", epsilon=[1.0, 2.0])
    sweep = dprl.run(config, name="both", privacy=privacy, episodes=20, seeds=1, quiet=True)
    monkeypatch.chdir(sweep.folder)
    capsys.readouterr()
    for word in ("both", str(sweep.folder)):
        assert main(["verify", word]) == 0
        told = capsys.readouterr().out.splitlines()[:-1]
        named = zip(sweep.frame["cell"], ("epsilon=1", "epsilon=2"), strict=True)
        assert [line.partition(": consistent. ")[0] for line in told] == [
            f"cells/{cell} ({name})" for cell, name in named
        ]
    assert main(["compose", "both", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["claimed"]["epsilon"] == 3.0
    for words in (["both", "both"], ["both", f"cells/{sweep.frame['cell'][0]}"]):
        assert main(["compose", *words]) == 2
        assert "CERT: must name each run once" in capsys.readouterr().err
    shutil.rmtree(sweep.folder / "cells" / sweep.frame["cell"][0])
    assert main(["compose", "both"]) == 2
    assert "SWEEP: must be finished, because cells that are not may have asked users" in capsys.readouterr().err
    shutil.rmtree(sweep.folder / "cells")
    assert main(["verify", "both"]) == 2
    assert "SWEEP: must be finished, and has no finished cell" in capsys.readouterr().err


def test_runs_that_share_their_noise_are_not_composed(tmp_path: Path) -> None:
    """Of equal settings and seed; certificates themselves state no seed, so equal ones may be of separate runs."""

    def run(name: str, **settings: Any) -> dprl.Sweep:
        env = {"name": "riverswim", "n_states": 3, "horizon": 2}
        config = {"algorithm": "private_ucb_vi", "env": env, "privacy": {"model": "jdp", "epsilon": 1.0}}
        return dprl.run(config, name=name, storage=tmp_path, episodes=20, quiet=True, **{"seeds": 1} | settings)

    def cell(of: dprl.Sweep) -> Path:
        return of.layout.cell_folder(of.frame["cell"][0])

    first, again, other = run("first"), run("again"), run("other", seed=5)
    assert first.certificate()["checksum"] == other.certificate()["checksum"]
    assert dprl.verify(dprl.compose(cell(first), cell(other))).stands
    with pytest.raises(
        dprl.UserError, match=r"^CERT: must be of runs with independent noise, and another one has equal"
    ):
        dprl.compose(cell(first), cell(again))
    more, copied = run("more", seeds=2, audit=False), tmp_path / "copied"
    shutil.copytree(cell(first), copied)
    for same in (cell(more), copied):
        with pytest.raises(dprl.UserError, match=r"^CERT: must be of runs with independent noise"):
            dprl.compose(cell(first), same)
    # The first seed is part of the streams' context, so the second seed of `more` is another run than this one.
    assert dprl.verify(dprl.compose(cell(more), cell(run("next", seed=1)))).stands
    (copied / "experiment.yaml").write_text("seed: many")
    with pytest.raises(dprl.UserError, match=r"^CERT: must have a valid experiment.yaml and versions.json beside it"):
        dprl.compose(cell(other), copied)
    with pytest.raises(
        dprl.UserError, match=r"^CERT: must name each run once: its noise is not independent of itself, "
    ):
        dprl.compose(cell(first), cell(first) / "certificate.json", disjoint=True)
    drawn = [run(name, noise={"entropy": "os"}) for name in ("os_1", "os_2")]
    assert dprl.verify(dprl.compose(*map(cell, drawn))).stands
