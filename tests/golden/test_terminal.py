"""What the commands print is that of the files beside this one.

`DPRL_WRITE_GOLDEN=1 pytest tests/golden` rewrites the files: their diff then shows the changes that a user sees.
"""

from __future__ import annotations

import json
import re
import shlex
import shutil
from pathlib import Path

import pytest

from dprl.platform.command_line import main
from dprl.platform.configs.config import config_files, load_cells
from tests.golden.test_command_line import COLUMNS, FOLDER, check

RECORDED = Path(__file__).parents[1] / "platform" / "reports" / "recorded"
COUNTS = "certify --horizon 5 --users 1000 --epsilon 1"
PRIVACY = "certify smoke --set 'privacy={model: "
COMMANDS = {
    "list": ["list", *(f"list {kind}" for kind in ("algorithms", "envs", "trust_models", "counters", "mechanisms"))],
    "certify": [
        "certify smoke",
        f"{PRIVACY}jdp, epsilon: 1, delta: 1e-6, counter: auto}}'",
        f"{PRIVACY}ldp, epsilon: 1, delta: 1e-6}}'",
        f"{PRIVACY}shuffle, epsilon: 0.5, delta: 1e-6}}'",
        f"{PRIVACY}jdp, epsilon: 1, calibration: printed}}'",
        f"{PRIVACY}jdp, epsilon: 1, nonsense: 2}}'",
        f"{PRIVACY}jdp, epsilon: 1}}' --set release=true --set seeds=1",
        "certify trust_models",
        "certify ma_ldp_schedule",
        "certify dppg_cartpole",
        f"{COUNTS} --mechanism laplace",
        f"{COUNTS} --mechanism gaussian --delta 1e-6",
        f"{COUNTS} --mechanism gaussian",
        "certify nonsense",
    ],
    "plan": ["sweep smoke --dry-run", "sweep regret_vs_epsilon --dry-run", "sweep trust_models --dry-run"],
    "report": [
        *("plot recorded", "plot recorded nonsense"),
        *("report recorded", "report nonsense", "report recorded recorded"),
    ],
    "verify": [
        "verify old.json",
        "verify nonsense",
        "verify jdp.json ldp.json",
        "verify jdp.json",
        "verify forged.json",
        "compose old.json jdp.json",
        "compose jdp.json ldp.json",
        "compose jdp.json jdp.json",
        "compose jdp.json again.json",
        "compose jdp.json again.json --disjoint",
    ],
    "words": ["nonsense", "sweep", "sweep nonsense", "run smoke --seeds 0", "plot", "new env", "ui --port x"],
}


@pytest.mark.parametrize("name", COMMANDS)
def test_outputs_are_unchanged(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = shutil.copytree(RECORDED, tmp_path / "home")
    monkeypatch.setenv("DPRL_HOME", str(home))
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.chdir(tmp_path)
    for file, i in (("again.json", 1), ("jdp.json", 1), ("ldp.json", 2)):
        certificate = load_cells(config_files()["smoke"])[i].certificate().to_dict()
        Path(file).write_text(json.dumps(certificate))
    Path("old.json").write_text(json.dumps({**certificate, "schema": "dprl.certificate/3", "version": "0.2.0"}))
    Path("forged.json").write_text(json.dumps({**certificate, "proved": {**certificate["proved"], "pure_epsilon": 1}}))
    told = []
    for command in COMMANDS[name]:
        code = main(shlex.split(command))
        shown = capsys.readouterr()
        told.append(f"$ dprl {command}\n{shown.out}{shown.err}exit code {code}\n")
    text = re.sub(r"\b[0-9a-f]{12,16}\b", "DIGEST", "\n".join(told).replace(str(tmp_path), "HERE"))
    check(FOLDER / "outputs" / f"{name}.txt", text)
