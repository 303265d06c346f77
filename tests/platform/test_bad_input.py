"""Bad input: one line on stderr that names the place, the rule and the remedy; exit code 2; nothing written."""

from __future__ import annotations

from pathlib import Path

import pytest

from dprl.platform.command_line import main

GOOD = """\
name: try
algorithm: {name: private_ucb_vi, bonus_scale: 0.1}
env: {name: riverswim, n_states: 3, horizon: 4}
privacy: {model: jdp, epsilon: 1.0}
episodes: 100
seeds: 1
"""
ENV, PRIVACY = "{name: riverswim, n_states: 3, horizon: 4}", "{model: jdp, epsilon: 1.0}"


def with_privacy(text: str) -> str:
    return GOOD.replace(PRIVACY, text)


def with_epsilon(text: str) -> str:
    return with_privacy(f"{{model: jdp, epsilon: {text}}}")


def with_env(text: str) -> str:
    return GOOD.replace(ENV, text)


def with_episodes(text: str) -> str:
    return GOOD.replace("episodes: 100", f"episodes: {text}")


# (content of the file, part of the error line)
BAD_FILES: dict[str, tuple[str, list[str]]] = {
    "seeds as a list": (GOOD.replace("seeds: 1", "seeds: [0, 1, 2]"), ["write the number of seeds"]),
    "digits in groups": (
        GOOD.replace("seeds: 1", "seeds: 1_0"),
        ["must be a whole number, got '1_0'; write a plain whole number"],
    ),
    "an id of Gymnasium": (
        with_env("{name: FrozenLake-v1}"),
        ["env: must have a registered name, not an id", "{name: gymnasium, env_id: FrozenLake-v1}"],
    ),
    "an id of Gymnasium alone": (with_env("ALE/Pong-v5"), ["env: must have", "env_id: ALE/Pong-v5}", "name: control"]),
    "unknown key": (GOOD + "episode: 5\n", ["episode: unknown key", "did you mean 'episodes'?", "seeds"]),
    "key of another env": (
        with_env("{name: riverswim, branching: 2}"),
        ["env.branching: does not belong to name riverswim", "garnet"],
    ),
    "epsilon NaN": (with_epsilon(".nan"), ["privacy.epsilon: must be a number that is finite, got nan"]),
    "epsilon text": (with_epsilon("'1.0'"), ["privacy.epsilon: must be a number, got '1.0'", "write a plain "]),
    "epsilon list": (
        with_epsilon("[1, 2]"),
        ["privacy.epsilon: must be a number, got [1, 2]; for several values write {grid_search: [...]}"],
    ),
    "noise that the counter cannot have": (
        with_privacy("{model: jdp, epsilon: 1, delta: 1e-6, counter: buffered_toeplitz, mechanism: laplace}"),
        ["jdp epsilon=1: privacy.counter: buffered_toeplitz ", "; write mechanism: gaussian, or counter: kary_tree"],
    ),
    "Gaussian noise for a pure guarantee": (
        with_privacy("{model: ldp, epsilon: 1, mechanism: gaussian}"),
        ["ldp epsilon=1: privacy.mechanism: must have pure privacy", "got 'gaussian'", "add delta: 1e-6"],
    ),
    "printed noise in a counter that no paper has": (
        with_privacy("{model: jdp, epsilon: 1, calibration: printed, counter: kary_tree}"),
        ["the papers print a scale for binary_tree with laplace only"],
    ),
    "printed and exact": (
        with_privacy("{model: jdp, epsilon: 1, calibration: printed}") + "noise: {arithmetic: exact}\n",
        ["privacy.calibration: must be certified", "write arithmetic: fast, or calibration: certified"],
    ),
    "noise beyond memory": (
        with_privacy("{model: jdp, epsilon: 1, delta: 1e-6, counter: buffered_toeplitz}").replace("100", "1e9"),
        ["privacy.counter: buffered_toeplitz takes 1 to 10,000,000 releases, got 999,999,999; use kary_tree"],
    ),
    "epsilon too small for its noise": (with_epsilon("1e-320"), ["epsilon"]),
    "horizon beyond memory": (with_env("{name: riverswim, horizon: 1e12}"), ["horizon"]),
    "episodes missing": (GOOD.replace("episodes: 100\n", ""), ["episodes: is required", "a whole number"]),
    "section's key at the top": (GOOD + "epsilon: 2\n", ["epsilon: unknown key; did you mean 'privacy.epsilon'?"]),
    "unknown algorithm": (
        GOOD.replace("private_ucb_vi", "private_ucbvi"),
        ["algorithm.name: ", "got 'private_ucbvi'", "did you mean 'private_ucb_vi'?"],
    ),
    "unknown model": (with_privacy("{model: jpd, epsilon: 1}"), ["privacy.model: ", "did you mean 'jdp'?"]),
    "jdp without epsilon": (with_privacy("{model: jdp}"), ["privacy.epsilon: is required, got nothing"]),
    "no privacy section": (GOOD.replace(f"privacy: {PRIVACY}\n", ""), ["privacy: is required, got", "{model: none}"]),
    "empty privacy section": (with_privacy(""), ["privacy: must be a mapping, got None"]),
    "privacy a word": (with_privacy("jdp"), ["privacy: must be a mapping, got 'jdp'"]),
    "model a list": (with_privacy("{model: [jdp]}"), ["privacy.model: ", "got ['jdp']"]),
    "name a path": (GOOD.replace("name: try", "name: ../try"), ["name: must be 1 to 100 letters", "'../try'"]),
    "name a number": (GOOD.replace("name: try", "name: 7"), ["name: must be text, got 7; put it in quotes"]),
    "empty file": ("", ["a config must be a mapping of keys, got None"]),
    "not YAML": ("name: [unclosed\n", ["must be YAML"]),
    "tabs": ("name:\n\t- x\n", ["must be YAML"]),
    "a Python object": ("!!python/object/apply:os.getcwd []\n", ["must be YAML"]),
    "a key twice": (GOOD + "seeds: 2\n", ["must be YAML, got the key 'seeds' twice in a mapping (line 7)"]),
    "no space": (with_env("{name:riverswim}"), ["env: must have a space after every colon", "write name: riverswim"]),
    "a number as key": (GOOD + "1: 2\n", ["config: must have text keys, got 1"]),
    "contains itself": (with_env("&env {name: riverswim, inner: *env}"), ["an alias that contains itself"]),
    "empty grid": (
        with_episodes("{grid_search: []}"),
        ["episodes.grid_search: must be a list of alternatives, at least one, got []"],
    ),
    "grid misspelt": (
        with_episodes("{gridsearch: [2, 3]}"),
        ["episodes: must be a whole number, got {'gridsearch': [2, 3]}; for several values write {grid_search: "],
    ),
    "grid not a list": (with_episodes("{grid_search: 5}"), ["episodes.grid_search: must be a list", "got 5"]),
    "grid with siblings": (
        with_privacy("{model: jdp, grid_search: [1, 2]}"),
        ["privacy.grid_search: must have mappings as alternatives, with keys beside it, got 1"],
    ),
    "section beside a joint grid and in it": (
        GOOD + "grid_search: [{seed: 1}, {seed: 2, grid_search: [{episodes: 5}]}]\n",
        ["episodes: must not be given both beside grid_search and in it"],
    ),
    "grid of names": (GOOD.replace("name: try", "name: {grid_search: [a, b]}"), ["name: must be one"]),
    "grid with a bad point": (with_epsilon("{grid_search: [1, 0]}"), ["privacy.epsilon: ", "got 0"]),
    "same cell twice": (with_episodes("{grid_search: [100, 1e2]}"), ["different, got 'jdp epsilon=1' twice"]),
    "grid beyond reason": (
        GOOD.replace("seeds: 1", f"seed: {{grid_search: {list(range(200))}}}\nseeds: 1").replace(
            "100", f"{{grid_search: {list(range(2, 100))}}}"
        ),
        ["at most 10000 cells"],
    ),
}


@pytest.fixture
def outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder, without a results folder set elsewhere."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DPRL_HOME", raising=False)
    return tmp_path


def assert_refused(arguments: list[str], says: list[str], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(folder.rglob("*"))
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("dprl: ")
    assert shown.err.count("\n") == 1
    assert shown.err.endswith("\n")
    for part in says:
        assert part in shown.err
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("command", ["run", "certify"])
@pytest.mark.parametrize("case", BAD_FILES)
def test_a_bad_file_is_refused_in_one_line_and_nothing_is_written(
    command: str, case: str, outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, says = BAD_FILES[case]
    (outside / "try.yaml").write_text(text)
    assert_refused([command, "try.yaml"], says, outside, capsys)


BAD_ARGUMENTS: dict[str, tuple[list[str], list[str]]] = {
    "unknown command": (["runn", "try.yaml"], ['Unknown command "runn". Did you mean "run"?']),
    "no config": (["run"], ["CONFIG"]),
    "unknown option": (["run", "try.yaml", "--sedes", "3"], ["--sedes"]),
    "abbreviated option": (["sweep", "try.yaml", "--dry"], ["--dry"]),
    "no such file": (["run", "nowhere.yaml"], ["nowhere.yaml: config not found; "]),
    "nearly a known config": (["run", "smok"], ["did you mean 'smoke'?"]),
    "a config with another extension": (["run", "try.yml"], ["config not found; did you mean 'try.yaml'?"]),
    "a config without its extension": (["run", "./try"], ["config not found; did you mean 'try.yaml'?"]),
    "nearly a config beside it": (["run", "binari.yaml"], ["config not found; did you mean 'binary.yaml'?"]),
    "a known config with an extension": (["run", "smoke.yml"], ["config not found; did you mean 'smoke'?"]),
    "a folder": (["run", "."], [".: a config must be a YAML file, got 'Is a directory'"]),
    "not text": (["run", "binary.yaml"], ["binary.yaml: a config must be a YAML file, got 'not UTF-8 text'"]),
    "set without =": (["run", "try.yaml", "--set", "episodes"], ["--set: must be path=value, got 'episodes'"]),
    "set without a path": (["run", "try.yaml", "--set", "=5"], ["--set: must be path=value, got '=5'"]),
    "set an unknown path": (
        ["run", "try.yaml", "--set", "env.horizn=5"],
        ["env.horizn: unknown key", "did you mean 'horizon'?"],
    ),
    "below a number": (["run", "try.yaml", "--set", "episodes.x=5"], ["--set episodes.x: episodes must be a mapping"]),
    "set not quoted": (
        ["run", "try.yaml", "--set", "privacy={model:", "jdp,", "epsilon:", "2}"],
        ["unrecognized arguments: jdp, epsilon: 2}; quote the value of --set (see "],
    ),
    "a flag misspelt": (["run", "try.yaml", "--frsh"], ["--frsh. Did you mean --fresh? (see ", "run --help"]),
    "set not YAML": (["run", "try.yaml", "--set", "episodes=[1"], ["--set episodes: must be YAML"]),
    "set to nothing": (["run", "try.yaml", "--set", "episodes="], ["episodes: must be a whole number, got None"]),
    "name a path": (["run", "try.yaml", "--name", "a/b"], ["name: must be 1 to 100 letters", "'a/b'"]),
    "unknown kind": (["list", "environments"], ["environments", "envs"]),
    "storage elsewhere": (["sweep", "try.yaml", "--storage", "s3://bucket"], ["--storage: must be a folder"]),
    "storage a file": (["sweep", "try.yaml", "--storage", "try.yaml"], ["--storage: must be a folder"]),
    "tracking a folder": (["sweep", "try.yaml", "--tracking-uri", "./mlruns"], ["tracking-uri"]),
    "tracking where nothing listens": (
        ["sweep", "try.yaml", "--tracking-uri", "http://127.0.0.1:9"],
        ["tracking-uri: must be usable by MLflow (Connection refused)", "'http://127.0.0.1:9'"],
    ),
    "ui without results": (["ui"], ["mlflow.db: file not found"]),
    "ui port": (["ui", "--port", "http"], ["Invalid value for --port"]),
}


@pytest.mark.parametrize("case", BAD_ARGUMENTS)
def test_bad_arguments_are_refused_in_one_line_and_nothing_is_written(
    case: str, outside: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, says = BAD_ARGUMENTS[case]
    (outside / "try.yaml").write_text(GOOD)
    (outside / "binary.yaml").write_bytes(b"\xff\xfe\x00name")
    assert_refused(arguments, says, outside, capsys)


def test_a_home_that_is_a_file_is_refused(
    outside: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (outside / "try.yaml").write_text(GOOD)
    monkeypatch.setenv("DPRL_HOME", str(outside / "try.yaml"))
    assert_refused(["run", "try.yaml"], ["$DPRL_HOME: must be a folder that can be written"], outside, capsys)


@pytest.mark.parametrize(
    "content",
    [
        *(b"a: !!python/name:os.system\n", b"seeds: !!int x\n", b"seed: !!binary x\n", b"seed: !!timestamp x\n"),
        *(b"seed: !!float x\n", b"audit: !!bool x\n", b"seed: !!null x\n", b"seed: !!omap [1]\n", b"!!map\n"),
        *(b"seed: !!set {a}\n", b"seed: !x 1\n", b"<<: 3\n", b"<<: *nobody\n", b"<<: [{seed: 1}, 2]\n", b"&a : *a\n"),
        *(b"? [a, b]\n: 1\n", b"? {a: b}\n: 1\n", b"\x00", b"\x01", b"\xc3\x28", b"\xed\xa0\x80", b"---\nname: a\n"),
        *(b"%YAML 9.9\n---\n", b"seed: 1:30\n", b"seed: 2026-01-01\n", b"seed: +.inf\n", b"seed: 1e400\n", b"}", b"["),
        b"'",
        *(b"|\n", b"seed: " + b"9" * 5000 + b"\n", b"a: " + b"[" * 3000 + b"\n", b"a: " + b"{a: " * 2000 + b"\n"),
        "".join([f"a{i}: &a{i} [*a{i - 1}, *a{i - 1}]\n" if i else "a0: &a0 [1, 1]\n" for i in range(30)]).encode(),
        *(b"a: &a [*a]\n", b"a: &a {<<: *a}\n"),
        *(b'"\\ud800": 1\n', b'name: "\\ud800"\n', b'name: "\\e[31m"\n', b'"\\e[31m": 1\n', b"k" * 5000 + b": 1\n"),
        *("\u202e: 1\n".encode(), "\u202e: {grid_search: []}\n".encode(), b"7\n", b"null\n", b"--- 1\n--- 2\n"),
        b".nan\n",
    ],
    ids=lambda content: repr(content[:30]),
)
def test_odd_yaml_is_refused_in_one_line(content: bytes, outside: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Found by random changes of valid configs."""
    (outside / "try.yaml").write_bytes(content)
    assert main(["certify", "try.yaml"]) == 2
    line = capsys.readouterr().err.removesuffix("\n")
    assert line.startswith("dprl: ")
    assert line.isprintable()
    assert "; " in line
    assert len(line) < 2000
