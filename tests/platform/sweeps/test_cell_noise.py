"""Cells whose noise comes from the operating system, audited cells, and charges of finished releases."""

from __future__ import annotations

import errno
import json
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dprl.atomic_files import write_json
from dprl.platform.configs.experiment import Experiment, read_experiment
from dprl.platform.errors import UserError
from dprl.platform.reports.verdicts import certificate_facts
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.sweeps.cell import CellRun
from dprl.platform.sweeps.sweep import run_sweep
from dprl.privacy.journal import charging_attempts
from tests.platform.sweeps.test_sweep import cells_of, options

pytestmark = pytest.mark.usefixtures("one_drawing")
TREE = {"model": "jdp", "epsilon": 5.0, "counter": "binary_tree", "families": "separate"}


def experiment(**changes: Any) -> Experiment:
    return read_experiment(
        {
            "name": "try",
            "algorithm": {"name": "private_ucb_vi", "bonus_scale": 0.05},
            "env": {"name": "riverswim", "n_states": 3, "horizon": 4},
            "privacy": TREE,
            "episodes": 300,
            "seeds": 2,
            **changes,
        }
    )


def finished(cell: Experiment, folder: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    folder.mkdir(exist_ok=True)
    run = CellRun(cell, CellFolder(folder))
    while not run.folder.finished:
        run.advance(60.0)
    return pd.read_parquet(folder / "records.parquet"), json.loads((folder / "certificate.json").read_text())


def test_noise_of_the_operating_system_is_never_written_down_and_its_seed_starts_over(tmp_path: Path) -> None:
    cell = experiment(noise={"entropy": "os"})
    run = CellRun(cell, CellFolder(tmp_path))
    while not (run._policies and run._learners):
        run.advance(0.0)
    done = [[row[:] for row in run._rows[0]]]
    assert run._journal is not None
    run._journal.close()  # as at the end of the process
    with np.load(tmp_path / "state.npz") as state:
        assert not [key for key in state.files if key.startswith("learner/")]
        assert len(state["rows"]) == len(run.ends)
    again = CellRun(cell, CellFolder(tmp_path))
    assert again._rows == done
    assert not again._learners
    assert again.progress.restarted == (
        "seed 2 was interrupted and starts again with new noise: its users are asked again, and the certificate "
        "composes both attempts: a claim that was met exactly fails; request a larger epsilon, or run under another "
        "name with new users"
    )
    while not again.folder.finished:
        again.advance(60.0)
    certificate = json.loads((tmp_path / "certificate.json").read_text())
    assert (certificate["attempts"], certificate["verdict"]) == (2, "holds_approximately")
    assert certificate["factor"] == pytest.approx(2.0)
    assert 0 < certificate["users_asked_again"] < 299 == certificate["users"]
    assert certificate["proved"]["pure_epsilon"] == pytest.approx(10.0)
    facts = dict(certificate_facts(certificate))
    assert facts["attempts"].startswith("2 with fresh noise each; ")
    assert facts["attempts"].endswith("claim 2 times the epsilon, or run under another name with new users")
    records = pd.read_parquet(tmp_path / "records.parquet")
    assert sorted(records["seed"].unique()) == [0, 1]


def test_a_cut_between_seeds_is_no_second_release(tmp_path: Path) -> None:
    """The checkpoint has everything that was released; seeded noise is drawn again after an interruption anywhere."""
    secret, seeded = experiment(noise={"entropy": "os"}), experiment()
    for name, cell, ended in (("os", secret, True), ("seed", seeded, False)):
        folder = CellFolder(tmp_path / name)
        folder.path.mkdir()
        run = CellRun(cell, folder)
        while not run._rows or (not run._learners) != ended:
            run.advance(0.0)
        assert CellRun(cell, folder).progress.restarted == ""


def test_a_cut_among_the_artifacts_is_no_second_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files written before the disk was full may have been read."""
    cell = experiment(release=True, seeds=1)

    def full(file: Path, content: Any) -> None:
        if file.name == "versions.json":
            raise OSError(errno.ENOSPC, "No space left on device")
        write_json(file, content)

    with monkeypatch.context() as patched:
        patched.setattr("dprl.platform.sweeps.cell.write_json", full)
        with pytest.raises(OSError, match="No space left"):
            CellRun(cell, CellFolder(tmp_path)).advance(60.0)
    names = ("records.parquet", "policy.npz", "certificate.json")
    seen = {name: (tmp_path / name).read_bytes() for name in names}
    assert CellRun(cell, CellFolder(tmp_path)).advance(60.0).finished
    assert {name: (tmp_path / name).read_bytes() for name in names} == seen


def test_two_runs_with_noise_of_the_operating_system_differ_and_hold(tmp_path: Path) -> None:
    one, certificate = finished(experiment(release=True), tmp_path / "one")
    other, _ = finished(experiment(release=True), tmp_path / "other")
    assert not one["regret"].equals(other["regret"])
    assert certificate["verdict"] == "holds"
    assert {noise["entropy"] for noise in certificate["noise"]} == {"os"}


@pytest.mark.slow
@pytest.mark.usefixtures("fixed_draws")
def test_an_audit_is_attached_to_the_certificate_and_changes_no_record(tmp_path: Path) -> None:
    plain, before = finished(experiment(), tmp_path / "plain")
    audited, after = finished(experiment(audit=True), tmp_path / "audited")
    assert plain.equals(audited)
    assert before["audit"] is None
    assert after["audit"]["verdict"] == "not refuted"
    assert 0.0 < after["audit"]["epsilon_lb"] <= 5.0
    assert {key for key in before if before[key] != after[key]} == {"audit", "checksum"}


PRIVACY: dict[str, dict[str, Any]] = {
    "jdp": {"privacy": TREE},
    "ldp": {"privacy": {"model": "ldp", "epsilon": 5.0, "families": "separate", "mechanism": "laplace"}},
    "gradients": {
        "algorithm": {"name": "pgc_a3c", "padded": True},
        "env": {"name": "cartpole_gravity", "horizon": 20},
        "privacy": {"model": "ldp", "epsilon": 5.0, "release_scores": "none"},
    },
}
HOLD_AT_DELTA = {"jdp"}
"""Kinds with many small releases: two attempts fail the pure claim and still meet its epsilon at delta 1e-6."""
CUTS = [*product(("jdp", "gradients"), ("charged", "saved")), *((kind, "sent") for kind in PRIVACY)]
KILLED = """
import os, sys
from pathlib import Path
from dprl.platform.results.cell_folder import CellFolder
from dprl.platform.sweeps import cell as module
from dprl.privacy.journal import ChargeJournal
from tests.platform.sweeps.test_cell_noise import CUTS, PRIVACY, experiment

def run_and_die(kind, point):
    folder = Path(sys.argv[1]) / kind / point
    folder.mkdir(parents=True)
    run = module.CellRun(experiment(**PRIVACY[kind], episodes=20, seeds=1, release=True), CellFolder(folder))
    if point == "charged":  # the users are charged, and nothing was sent
        write = ChargeJournal.write
        ChargeJournal.write = lambda *words: (write(*words), os._exit(9))
    elif point == "sent":  # messages were sent, and no checkpoint was written
        module.CellRun._save = lambda run: os._exit(9)
    run.advance(0.0)
    os._exit(9)

for cut in CUTS:
    if (process := os.fork()) == 0:
        try:
            run_and_die(*cut)
        finally:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    assert code == 9, (cut, code)
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a cell KIND/POINT for each of CUTS, whose process was killed there."""
    folder = tmp_path_factory.mktemp("killed")
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder)], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    return folder


@pytest.mark.parametrize(("kind", "point"), CUTS)
def test_a_release_that_is_killed_says_so_and_composes_whatever_users_send(killed: Path, kind: str, point: str) -> None:
    """A process that is killed after the charge, after the messages or after its checkpoint."""
    cell = experiment(**PRIVACY[kind], episodes=20, seeds=1, release=True)
    _, certificate = finished(cell, killed / kind / point)
    assert (certificate["attempts"], certificate["users_asked_again"]) == (2, 1)
    assert certificate["verdict"] == ("holds_approximately" if kind in HOLD_AT_DELTA else "fails")
    assert certificate["factor"] == pytest.approx(2.0, rel=1e-6)
    assert certificate["proved"]["pure_epsilon"] == pytest.approx(10.0, rel=1e-6)


def test_charges_outlive_the_cell_and_are_refused_where_nobody_knows_who_was_asked(tmp_path: Path) -> None:
    cell, folder = experiment(release=True, seeds=1, episodes=20), CellFolder(tmp_path / "cell")
    folder.path.mkdir()
    run = CellRun(cell, folder)
    run.advance(0.0)
    journal = folder.charges_file(0)
    assert journal.stat().st_mode & 0o777 == 0o600
    assert run._journal is not None
    run._journal.close()
    text = journal.read_bytes()
    journal.write_bytes(text[:-3] + b"x" + text[-2:])
    with pytest.raises(UserError, match="is damaged in line"):
        CellRun(cell, folder).advance(0.0)
    journal.unlink()
    with pytest.raises(UserError, match="it is unknown who was asked; restore the latest, or run under another name"):
        CellRun(cell, folder)
    journal.write_bytes(text)
    shutil.rmtree(folder.path)
    _, certificate = finished(cell, folder.path)
    assert (certificate["attempts"], certificate["users_asked_again"]) == (2, 1)


# Charges of finished releases: no copy, deleted journal or changed grid makes a second release look like the first.


ONE, OTHER = {"model": "jdp", "epsilon": 1.0}, {"model": "jdp", "epsilon": 2.0}
NONE = {"model": "none"}


def release(tmp_path: Path, *privacy: dict[str, Any]) -> list[Any]:
    return cells_of(tmp_path, privacy={"grid_search": list(privacy)}, episodes=20, noise={"entropy": "os"})


@pytest.fixture
def cell(tmp_path: Path) -> CellFolder:
    """A finished release."""
    cells = release(tmp_path, ONE)
    assert run_sweep(cells, options(tmp_path / "home")).failed == []
    found = CellFolder(tmp_path / "home/sweeps/small/cells" / cells[0].digest)
    assert [charging_attempts(found.charges_file(seed)) for seed in (0, 1, 2)] == [1, 1, 0]
    return found


def test_a_restored_cell_does_not_hide_a_later_attempt(tmp_path: Path, cell: CellFolder) -> None:
    cells, home = release(tmp_path, ONE), tmp_path / "home"
    shutil.copytree(cell.path, tmp_path / "copy")
    assert run_sweep(cells, options(home, fresh=True)).failed == []
    assert cell.certificate()["attempts"] == 2
    shutil.rmtree(cell.path)
    shutil.copytree(tmp_path / "copy", cell.path)
    (told,) = run_sweep(cells, options(home)).failed
    assert "journal must record its attempts, 1 for a seed, got [2, 2]; restore the latest state" in told
    assert cell.certificate()["attempts"] == 1
    shutil.rmtree(cell.path)
    assert run_sweep(cells, options(home)).failed == []
    assert cell.certificate()["attempts"] == 3


@pytest.mark.parametrize("fresh", [False, True])
def test_a_missing_journal_of_a_finished_release_is_refused(tmp_path: Path, cell: CellFolder, fresh: bool) -> None:
    cell.charges_file(1).unlink()
    told = r"journal must record its attempts, 1 for a seed, got \[1, 0\]; restore the latest state"
    if fresh:
        with pytest.raises(UserError, match=told):
            run_sweep(release(tmp_path, ONE), options(tmp_path / "home", fresh=True))
    else:
        (found,) = run_sweep(release(tmp_path, ONE), options(tmp_path / "home")).failed
        assert "got [1, 0]; restore the latest state" in found
    assert cell.certificate()["attempts"] == 1


def test_a_charged_cell_cannot_be_replaced_by_growing_and_shrinking(tmp_path: Path, cell: CellFolder) -> None:
    home = tmp_path / "home"
    for privacy in ([ONE, NONE], [NONE]):
        assert run_sweep(release(tmp_path, *privacy), options(home)).failed == []
    for fresh in (False, True):
        with pytest.raises(UserError, match="has charged users of a release in 1 cell of other settings or code"):
            run_sweep(release(tmp_path, NONE, OTHER), options(home, fresh=fresh))
    assert run_sweep(release(tmp_path, NONE, ONE), options(home)).failed == []
    assert cell.certificate()["attempts"] == 1


def test_older_journals_are_refused_also_by_a_fresh_start(tmp_path: Path, cell: CellFolder) -> None:
    cells, home = release(tmp_path, ONE), tmp_path / "home"
    shutil.copytree(cell.charges_file(0).parent, tmp_path / "copy")
    run_sweep(cells, options(home, fresh=True))
    shutil.copytree(tmp_path / "copy", cell.charges_file(0).parent, dirs_exist_ok=True)
    with pytest.raises(UserError, match=r"must record its attempts, 2 for a seed, got \[1, 1\]"):
        run_sweep(cells, options(home, fresh=True))
    assert cell.certificate()["attempts"] == 2


def test_a_journal_that_cannot_be_read_is_an_error_in_one_line(tmp_path: Path, cell: CellFolder) -> None:
    cell.charges_file(0).unlink()
    cell.charges_file(0).mkdir()
    (found,) = run_sweep(release(tmp_path, ONE), options(tmp_path / "home")).failed
    assert "must be one that can be read, got 'it is no regular file'; free it" in found
