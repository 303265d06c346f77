"""The parts of a submission that need no cluster: its package, following it, and its end."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from ray.job_submission import JobDetails, JobStatus, JobType

from dprl import __version__
from dprl.platform.commands.submit import check_tracking, checked_storage
from dprl.platform.configs.config import load_cells, read_config
from dprl.platform.errors import UserError
from dprl.platform.submission import jobs
from dprl.platform.submission.jobs import exit_code_of, follow_job
from dprl.platform.submission.shipping import CONFIG_FILE, pack
from dprl.sources import code_digest


def test_what_is_packed_is_what_runs_here(tmp_path: Path) -> None:
    package, job = pack(read_config("smoke"), tmp_path)
    asked = (
        "from dprl.platform.reports.templates import template; template('report'), template('certificate');"
        "import dprl, dprl.sources as p; print(p.code_digest(), dprl.__version__, p.__file__)"
    )
    # -S: without the dprl of site-packages, but with its dependencies from there.
    paths = [str(package.parent), str(job), *sys.path]
    code = f"import sys; sys.path[:0] = {paths!r}; {asked}"
    done = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    digest, version, file = done.stdout.split()
    assert digest == code_digest()
    assert version == __version__
    assert file.startswith(str(package))


@pytest.mark.parametrize("name", ["smoke", "trust_models", "pgc_a3c_table"])
def test_a_packed_config_has_the_same_cells(name: str, tmp_path: Path) -> None:
    _, job = pack(read_config(name, ["seed=3"]), tmp_path)
    packed = load_cells(job / CONFIG_FILE)
    assert [cell.digest for cell in packed] == [cell.digest for cell in load_cells(name, ["seed=3"])]
    assert packed[0].name == name


def test_two_packings_are_one_package(tmp_path: Path) -> None:
    first, second = (pack(read_config("smoke"), tmp_path / name) for name in ("one", "two"))
    for ours, theirs in zip(first, second, strict=True):
        files = [{f.relative_to(top): f.read_bytes() for f in top.rglob("*") if f.is_file()} for top in (ours, theirs)]
        assert files[0] == files[1]
        assert files[0]


@pytest.mark.parametrize(
    ("status", "code", "expected"),
    [("SUCCEEDED", 0, 0), ("STOPPED", None, 130), *(("FAILED", *x) for x in ((1, 1), (2, 2), (-9, 1), (None, 1)))],
)
def test_how_a_job_ended(status: str, code: int | None, expected: int) -> None:
    told = {"message": "killed", "driver_exit_code": code}
    details = JobDetails(type=JobType.SUBMISSION, entrypoint="", status=JobStatus(status), **told)
    assert exit_code_of(details) == expected


@pytest.mark.parametrize("given", ["/shared/dprl", "file:///shared/dprl"])
def test_a_folder_of_the_nodes_need_not_be_here(given: str) -> None:
    assert checked_storage(given) == "/shared/dprl"


def test_one_node_may_have_a_database(tmp_path: Path) -> None:
    check_tracking(["127.0.0.1"], str(tmp_path), None)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "must be given for a cluster, got None; name a folder that all nodes see, e.g. --storage /shared/dprl"),
        ("shared/dprl", "must be an absolute path, the same on every node, got 'shared/dprl'; write e.g. --storage /"),
        (
            "s3://bucket/dprl",
            "must be a folder that every node sees, got 's3://bucket/dprl'; mount it and give its path",
        ),
        ("file://", "must be a folder that every node sees, got 'file://'; mount it"),
    ],
)
def test_a_folder_that_the_nodes_cannot_share_is_refused(given: str | None, told: str) -> None:
    with pytest.raises(UserError, match=f"^--storage: {re.escape(told)}"):
        checked_storage(given)


def test_an_address_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(
        UserError, match=r"^tracking-uri: must be an address \(.*\), got 'http://\[h'; write e\.g\. http"
    ):
        check_tracking(["127.0.0.1"], "/shared", "http://[h")


def test_a_database_without_a_folder_is_refused() -> None:
    with pytest.raises(UserError, match="tracking-uri: must have an absolute path"):
        check_tracking(["127.0.0.1"], "/shared", "sqlite:///runs.db")


def test_the_example_for_kubernetes(root: Path) -> None:
    documents = list(yaml.safe_load_all((root / "docs" / "kuberay.yaml").read_text()))
    (cluster,) = [one for one in documents if one["kind"] == "RayCluster"]
    assert cluster["apiVersion"] == "ray.io/v1"
    groups = [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]
    claims = {one["metadata"]["name"]: one["spec"] for one in documents if one["kind"] == "PersistentVolumeClaim"}
    for group in groups:
        pod = group["template"]["spec"]
        (container,) = pod["containers"]
        given = {one["name"]: one for one in container["env"]}
        assert container["image"].endswith(f"/dprl:{__version__}")
        assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"], "else /shared is root's"
        assert given["RAY_AUTH_MODE"]["value"] == "token"
        assert given["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"]["key"] == "auth_token"
        (mount,), (volume,) = container["volumeMounts"], pod["volumes"]
        assert (mount["name"], mount["mountPath"]) == (volume["name"], "/shared")
        assert claims[volume["persistentVolumeClaim"]["claimName"]]["accessModes"] == ["ReadWriteMany"]
    assert all(group["minReplicas"] <= group["replicas"] <= group["maxReplicas"] for group in groups[1:])
    (server,) = [one for one in documents if one["kind"] == "Deployment"]
    assert "fsGroup" in server["spec"]["template"]["spec"]["securityContext"]
    assert f"/dprl:{__version__} " in (root / "docs" / "Containerfile").read_text()
    (service,) = [one for one in documents if one["kind"] == "Service"]
    assert service["spec"]["selector"].items() <= server["spec"]["template"]["metadata"]["labels"].items()


NO_AGENT = "Request failed with status code 500: No available agent to submit job, please try again later.."
BUSY = "Request failed with status code 500: something else"
SHIPMENT = (Path("code"), Path("job"))


class Refusing:
    """A dashboard that refuses a job once for each of `reasons`, and then accepts it."""

    url = "http://192.0.2.1:8265"

    def __init__(self, *reasons: str) -> None:
        self.reasons = list(reasons)

    def submit_job(self, submission_id: str, **_: object) -> str:
        if self.reasons:
            raise RuntimeError(self.reasons.pop(0))
        return submission_id


def test_an_agent_that_is_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.0)
    told: list[str] = []
    late: Any = Refusing(NO_AGENT, NO_AGENT)
    assert jobs.submit_job(late, "tiny", [], SHIPMENT, {}, told.append).startswith("tiny-")
    assert told == [f"waiting    for {late.url} to start the agent for jobs"]


@pytest.mark.parametrize(
    ("reasons", "said"),
    [
        ([NO_AGENT] * 9, "must have an agent that starts jobs, and has none; another Ray on that machine may hold its"),
        ([BUSY], "must take the job (Request failed with status code 500: something else); see the head's logs"),
        ([NO_AGENT, BUSY], "must take the job (Request failed with status code 500: something else)"),
    ],
)
def test_a_head_that_takes_no_job(reasons: list[str], said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.02)
    monkeypatch.setattr(jobs, "_PATIENCE_SECONDS", 0.1)
    client: Any = Refusing(*reasons)
    with pytest.raises(UserError) as refused:
        jobs.submit_job(client, "tiny", [], SHIPMENT, {}, print)
    assert str(refused.value).startswith(f"--address: {client.url} {said}")
    assert "\n" not in str(refused.value)
    assert len(client.reasons) < max(2, len(reasons))


@pytest.mark.parametrize(
    "uri",
    [
        "http://me:hidden@h:5000",
        "http://hidden@h:5000",
        "postgresql://h/db?user=u&password=hidden",
        "https://h/mlflow?token=hidden",
        "postgresql+psycopg2:///db?sslpassword=hidden",
    ],
)
def test_no_secret_is_handed_in(uri: str) -> None:
    with pytest.raises(UserError, match="must have no user, password or token") as refused:
        check_tracking(["192.0.2.1"], "/shared", uri)
    assert "hidden" not in str(refused.value)


# Modules of environments travel with a job.


def test_an_environments_module_is_shipped_with_its_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, into = tmp_path / "here", tmp_path / "into"
    (here / "pay_parts").mkdir(parents=True)
    into.mkdir()
    (here / "pay_env.py").write_text("import json\nimport numpy\nimport no_such\nfrom pay_parts import table\n")
    (here / "pay_parts" / "__init__.py").write_text("def table():\n    import pay_env\n    import dprl\n")
    (here / "pay_parts" / "table.csv").write_text("1\n")
    monkeypatch.syspath_prepend(str(here))
    _, job = pack({"name": "try"}, into, ["pay_env", "", "gymnasium.envs"])
    found = {file.relative_to(job).as_posix() for file in job.rglob("*") if file.is_file()}
    shipped = {"config.yaml", "pay_env.py", "pay_parts/__init__.py", "pay_parts/table.csv"}
    assert found == shipped


# A job is followed through failures of its head, but not forever if nothing answers.


RUNNING, DONE, AWAY = JobStatus.RUNNING, JobStatus.SUCCEEDED, None


class FakeDashboard:
    """A dashboard with these answers, a status and a log (None: no answer); the last one repeats."""

    url = "http://192.0.2.1:8265"

    def __init__(self, *answers: tuple[JobStatus | None, str | None]) -> None:
        self.answers = list(answers)

    def get_job_info(self, job_id: str) -> Any:
        status, self.log = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if status is None:
            raise RuntimeError("Request failed with status code 503")
        return SimpleNamespace(status=status, message="", driver_exit_code=None)

    def get_job_logs(self, job_id: str) -> str:
        if self.log is None:
            raise RuntimeError("the node is lost")
        return self.log


def followed(*answers: tuple[JobStatus | None, str | None]) -> tuple[Any, Sequence[str]]:
    lines: list[str] = []
    return follow_job(FakeDashboard(*answers), "a-job", lines.append), lines  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "_POLL_SECONDS", 0.0)
    monkeypatch.setattr(jobs, "_PATIENCE_SECONDS", 0.2)


def test_a_head_that_is_away_for_a_while_is_waited_for() -> None:
    ray = "2026-01-01 00:00:00,000\tINFO job.py:1 -- Runtime env is set up.\n"
    texts = [(RUNNING, ""), (RUNNING, f"{ray}one\ntw"), (AWAY, None), (RUNNING, None), (RUNNING, f"{ray}one\ntwo\n")]
    end, lines = followed(*texts, (DONE, f"{ray}one\ntwo\nthree"))
    assert end.status == DONE
    assert lines == ["one", "two", "three"]


def test_a_head_that_vanishes_is_not_waited_for_without_end() -> None:
    with pytest.raises(ConnectionError, match="503"):
        followed((RUNNING, "one\n"), (RUNNING, "one\n"), (AWAY, None))


def test_a_log_that_cannot_be_read_hides_no_end() -> None:
    end, lines = followed((RUNNING, "one\n"), (RUNNING, "one\n"), (DONE, None))
    assert (end.status, lines) == (DONE, ["one"])
