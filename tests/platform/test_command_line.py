"""The commands: their output, their exit codes, and their fast start."""

from __future__ import annotations

import inspect
import json
import os
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from dprl.platform import program
from dprl.platform.command_line import COMMANDS, app, main
from dprl.platform.configs.config import load_cells
from dprl.platform.program import resume_command
from dprl.platform.sweeps.cell import CellRun
from dprl.privacy import PRIVACY_SETTINGS
from dprl.privacy.mechanisms import MECHANISMS

pytestmark = pytest.mark.usefixtures("one_drawing")

CONFIG = """\
# One cell of each trust model.
name: try
algorithm: {name: private_ucb_vi, bonus_scale: 0.1}
env: {name: riverswim, n_states: 3, horizon: 5}
privacy:
  grid_search:
    - {model: none}
    - {model: jdp, epsilon: 1.0, calibration: printed}
    - {model: ldp, epsilon: 1.0}
episodes: 1000
seeds: 2
"""
MODULE = [sys.executable, "-P", "-m", "dprl.platform.command_line"]


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A config in the current folder, which is empty otherwise."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPRL_HOME", raising=False)
    file = tmp_path / "try.yaml"
    file.write_text(CONFIG)
    return file


def output(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> str:
    assert main(arguments) == code
    return capsys.readouterr().out


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_the_examples_in_the_help_are_understood(
    name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example's options are valid; its config need not exist."""
    monkeypatch.setenv("COLUMNS", "300")
    line = next(row for row in output(capsys, name, "--help").splitlines() if row.startswith("example: "))
    words = shlex.split(line.removeprefix("example: dprl "))
    assert COMMANDS[name].endswith(f":{app().parse_args(words, exit_on_error=False)[0].__name__}")


def test_list_of_one_name_documents_its_keys(capsys: pytest.CaptureFixture[str]) -> None:
    shown = output(capsys, "list", "bernstein_vi")
    for key in ("known_transitions", "stationary", "replan_growth", "beta"):  # its own keys, and those of three bases
        assert f"    {key}: " in shown
        assert f"{key} " in shown.partition("plays a finite MDP")[2]
    models = sum("jdp" in found.KEYS for found in PRIVACY_SETTINGS.values())
    assert output(capsys, "list", "jdp").count("*Formal guarantee.*") == models > 1
    [entry] = json.loads(output(capsys, "list", "laplace", "--json"))["mechanisms"]
    assert entry["documentation"] == inspect.getdoc(MECHANISMS["laplace"])
    assert "tune_configs/smoke.yaml (3 cells)" in output(capsys, "list", "smoke")


def test_list_shows_configs_of_this_folder_also_broken_ones(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = config.parent / "tune_configs"
    folder.mkdir()
    (folder / "mine.yaml").write_text(CONFIG)
    (folder / "broken.yaml").write_text("name: [\n")
    entries = {entry["name"]: entry for entry in json.loads(output(capsys, "list", "configs", "--json"))["configs"]}
    assert (entries["mine"]["description"], entries["mine"]["cells"]) == ("One cell of each trust model.", 3)
    assert entries["broken"]["description"].startswith("cannot be read: ")


@pytest.mark.parametrize("command", ["run", "sweep"])
def test_a_dry_run_shows_the_cells_and_writes_nothing(
    command: str, config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = output(capsys, command, str(config), "--dry-run").splitlines()
    assert len(shown) == 4
    assert shown[-1] == "3 cells, 6 seeds, 6000 episodes; nothing was run"
    assert not (config.parent / "dprl_runs").exists()


def test_run_prints_a_table_and_leaves_the_artifacts(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = output(capsys, "run", str(config)).splitlines()
    assert table[0].split() == [
        *("cell", "regret", "+-95%", "regret/ep.", "halving", "claim", "certified", "verdict", "caps", "s")
    ]
    assert [row.split()[0] for row in table[1:4]] == ["none", "jdp", "ldp"]
    assert [re.split(r" {2,}", row)[-3] for row in table[1:4]] == ["NO PRIVACY", "only for delta > 0", "holds"]
    assert max(map(len, table[:4])) <= 100
    assert table[4].startswith("columns: docs/metrics.md; ")
    folder = config.parent / "dprl_runs" / "sweeps" / "try"
    assert {"summary.csv", "frontier.png", "cells"} <= {file.name for file in folder.iterdir()}
    assert len(pd.read_csv(folder / "summary.csv")) == 3


def test_run_as_json_can_be_read_by_a_program(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = json.loads(output(capsys, "run", str(config), "--json", "--seeds", "1", "--name", "other"))
    assert Path(shown["folder"]) == config.parent / "dprl_runs" / "sweeps" / "other"
    assert shown["cells"][0]["proved_epsilon"] == "inf"
    assert [cell["regret_lower"] for cell in shown["cells"]] == [None] * 3
    assert shown["failed"] == []


@pytest.mark.parametrize("write", ["print('noise', flush=True)", "print('noise')", "os.write(1, b'noise')"])
def test_what_libraries_print_does_not_mix_with_results(write: str) -> None:
    script = f"import os\nfrom dprl.platform.commands.base import stdout_for_results as only\nwith only():\n    {write}"
    command = [sys.executable, "-P", "-c", script + "\nprint('result')"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr.strip()) == ("result\n", "noise")


def test_an_experiment_yaml_can_be_run_again_with_the_same_result_and_leaves_its_sweep_alone(
    config: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sweeps = config.parent / "dprl_runs" / "sweeps"
    output(capsys, "run", str(config))
    summary = (sweeps / "try" / "summary.csv").read_bytes()
    for folder in (sweeps / "try" / "cells").iterdir():
        output(capsys, "run", str(folder / "experiment.yaml"))
        again = sweeps / f"try-{folder.name}" / "cells" / folder.name / "records.parquet"
        assert again.read_bytes() == (folder / "records.parquet").read_bytes()
    assert (sweeps / "try" / "summary.csv").read_bytes() == summary


def test_a_failed_cell_is_exit_code_1_and_the_others_are_kept(
    config: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    original = CellRun.advance

    def fails(self: CellRun, seconds: float) -> object:
        if self.experiment.parameters()["privacy.model"] == "ldp":
            raise ValueError("no room left")
        return original(self, seconds)

    monkeypatch.setattr(CellRun, "advance", fails)
    assert main(["run", str(config)]) == 1
    shown = capsys.readouterr()
    assert [row.split()[0] for row in shown.out.splitlines()[1:4]] == ["none", "jdp", "columns:"]
    assert "dprl: failed: ldp" in shown.err
    assert "no room left" in shown.err


@pytest.mark.parametrize(
    ("called", "on_path", "expected"),
    [
        ("{here}/.venv/bin/dprl", False, "{here}/.venv/bin/dprl"),
        ("{here}/.venv/bin/dprl", True, "dprl"),
        ("{here}/command_line.py", False, "dprl"),
    ],
)
def test_a_command_in_a_message_can_be_pasted(
    called: str, on_path: bool, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / ".venv" / "bin" / "dprl"
    script.parent.mkdir(parents=True)
    script.touch(0o755)
    monkeypatch.chdir(script.parent)
    monkeypatch.setattr(sys, "argv", [called.format(here=tmp_path)])
    monkeypatch.setenv("PATH", str(script.parent) if on_path else "")
    assert program.command("ui", "a b") == f"{expected.format(here=tmp_path)} ui 'a b'"


def test_a_port_that_is_taken_is_bad_input(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    output(capsys, "run", str(config), "--seeds", "1")
    with socket.create_server(("0.0.0.0", 0)) as server:
        assert main(["ui", "--port", str(server.getsockname()[1])]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("dprl: --port: must be free (")
    assert shown.err.count("\n") == 1


def test_the_resume_command_does_not_start_afresh() -> None:
    assert resume_command(["run", "a b.yaml", "--fresh"]) == "dprl run 'a b.yaml'"


def loaded_after(*arguments: str) -> set[str]:
    """The modules loaded by a command in a new process."""
    script = (
        "import sys, contextlib, io\n"
        "from dprl.platform.command_line import main\n"
        "with contextlib.redirect_stdout(io.StringIO()): main(sys.argv[1:])\n"
        "print(' '.join(sys.modules))\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", script, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_help_loads_nothing_and_certify_no_more_than_it_needs(config: Path) -> None:
    heavy = {"ray", "mlflow", "matplotlib", "pandas", "pyarrow", "torch"}
    assert not loaded_after("--help") & (heavy | {"numba", "numpy", "pydantic", "yaml"})
    assert not loaded_after("certify", str(config)) & heavy
    assert not loaded_after("list") & heavy


def test_a_reader_that_leaves_early_is_no_error(config: Path, tmp_path: Path) -> None:
    forged = tmp_path / "certificate.json"
    (one, *_) = load_cells(config)
    forged.write_text(json.dumps(one.certificate().to_dict() | {"checksum": "0"}))
    reading, writing = os.pipe()
    os.close(reading)
    for words, code in ((["list"], 0), (["verify", str(forged)], 1)):
        done = subprocess.run([*MODULE, *words], stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
        assert (done.returncode, done.stderr) == (code, "")
    os.close(writing)


def test_only_what_is_printed_while_output_is_redirected_goes_elsewhere() -> None:
    """Python writes to a pipe in blocks, so texts before and within the context would be written after it."""
    script = (
        "from dprl.platform.program import STDERR, STDOUT, redirected\n"
        "print('before')\nwith redirected(STDOUT, STDERR):\n    print('within')\nprint('after')"
    )
    command = [sys.executable, "-P", "-c", script]
    environment = os.environ | {"PYTHONUNBUFFERED": ""}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("before\nafter\n", "within\n")


def test_a_command_that_is_written_down_holds_no_secret() -> None:
    words = [
        "sweep",
        "a.yaml",
        "--fresh",
        "--tracking-uri",
        "http://me:hidden@h:5000",
        "--tracking-uri=http://hidden@h",
    ]
    assert resume_command(words).endswith("sweep a.yaml --tracking-uri http://...@h:5000 --tracking-uri=http://...@h")
