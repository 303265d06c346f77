"""Client of Ray's dashboard and Jobs API over HTTP: reachability, authorisation, living nodes."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.parse
import urllib.request
from typing import Any

from dprl.platform.errors import UserError, broken_rule
from dprl.platform.ray_token import WHERE_TOKENS_ARE, user_token

TIMEOUT_SECONDS = 10.0
_EXAMPLE = "write e.g. --address http://HOST:8265"


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: urllib would send the token to another host."""

    def redirect_request(self, *_: object) -> None:
        """Return no request."""


_OPENER = urllib.request.build_opener(_NoRedirect)


class Unreachable(Exception):  # noqa: N818 - a state, which may pass
    """No answer; a later attempt may succeed."""


class Dashboard:
    """Dashboard at `address`, checked to accept our requests. Raises UserError within seconds.

    The token is sent only to a server that asks for one, and is never shown.
    """

    def __init__(self, address: str) -> None:
        self.url = _checked(address)
        self.headers: dict[str, str] = {}
        try:
            status, answer = self._get("/api/version")
            if status in {401, 403}:
                self.headers = {"Authorization": f"Bearer {user_token(f'--address: {self.url}')}"}
                status, answer = self._get("/api/version")
        except Unreachable as error:
            remedy = "check host and port; Ray's dashboard has 8265 unless `ray start --dashboard-port` says otherwise"
            raise broken_rule("--address", f"must be where Ray listens ({error})", address, remedy) from None
        if status in {401, 403}:
            rule = f"{self.url} refuses the token ({status}), which must be that of the cluster"
            raise UserError(f"--address: {rule}; {WHERE_TOKENS_ARE}")
        if status != http.client.OK or not isinstance(_mapping(answer).get("ray_version"), str):
            remedy = f"that is another server (HTTP {status}); Ray's dashboard has port 8265 by default"
            raise broken_rule("--address", "must be Ray's dashboard", address, remedy)

    def alive_nodes(self) -> list[str]:
        """Return the addresses of the cluster's living nodes, one per node. Raises UserError."""
        try:
            data = self._answered(*self._get("/api/v0/nodes?limit=10000")).get("data")
        except Unreachable as error:
            raise UserError(f"--address: {self.url} must keep answering ({error}); try again") from None
        rows = data.get("result", {}).get("result", []) if isinstance(data, dict) else []
        return [str(row["node_ip"]) for row in rows if row.get("state") == "ALIVE"]

    def job(self, job_id: str) -> dict[str, Any]:
        """Return Ray's record of a job: `status`, `message`, `driver_exit_code`. Raises UserError, Unreachable.

        An error from the head or from a proxy counts as no answer: the job may still run.
        """
        status, answer = self._get(f"/api/jobs/{urllib.parse.quote(job_id, safe='')}")
        if status >= http.client.INTERNAL_SERVER_ERROR:
            raise Unreachable(f"HTTP {status}")
        if status == http.client.NOT_FOUND:
            remedy = f"`ray job list --address {self.url}` shows them"
            raise broken_rule("job", f"must be one of {self.url}", job_id, remedy)
        return self._answered(status, answer)

    def _answered(self, status: int, answer: bytes) -> dict[str, Any]:
        if status != http.client.OK:
            text = " ".join(answer.decode(errors="replace").split())[-200:]
            raise UserError(f"--address: {self.url} must answer, got HTTP {status} ({text}); see the head's logs")
        return _mapping(answer)

    def _get(self, path: str) -> tuple[int, bytes]:
        """Return the status and the body. Raises Unreachable."""
        request = urllib.request.Request(self.url + path, headers=self.headers)
        try:
            with _OPENER.open(request, timeout=TIMEOUT_SECONDS) as response:
                return int(response.status), response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()
        except http.client.HTTPException:
            raise Unreachable("the server there does not speak HTTP") from None
        except OSError as error:
            reason = getattr(error, "reason", None) or error
            raise Unreachable(getattr(reason, "strerror", None) or str(reason) or type(reason).__name__) from None


def _checked(address: str) -> str:
    """Return the address without a slash at its end. Raises UserError."""
    rule = "must be the address of Ray's dashboard, http://HOST:PORT"
    try:
        parts = urllib.parse.urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise broken_rule("--address", f"{rule} ({error})", address, _EXAMPLE) from None
    if parts.scheme == "ray":
        remedy = f"that is Ray Client's; {_EXAMPLE}"
        raise broken_rule("--address", rule, address, remedy)
    if parts.scheme not in {"http", "https"} or not host:
        near = f"write --address http://{address}" if "://" not in address and ":" in address else _EXAMPLE
        raise broken_rule("--address", rule, address, near)
    if parts.username is not None:
        raise broken_rule("--address", f"{rule}, without a password", host, "remove the part before the @")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise broken_rule("--address", rule, address, "remove the part after the port")
    return f"{parts.scheme}://{parts.netloc}"


def _mapping(answer: bytes) -> dict[str, Any]:
    """Return the JSON mapping in `answer`, an empty one if there is none."""
    try:
        parsed = json.loads(answer)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}
