"""Ray's client of the Jobs API, for a checked address, with a token only for a server that asks for one."""

from __future__ import annotations

import logging
import os
import socket
import urllib.parse
from typing import Any

from ray.exceptions import AuthenticationError
from ray.job_submission import JobSubmissionClient

from dprl.platform.errors import UserError, broken_rule, first_line
from dprl.platform.ray_token import MODE_VARIABLE, WHERE_TOKENS_ARE, user_token

CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 60.0
"""Timeout of a request. Ray's own client would wait forever for a head that has vanished."""
_EXAMPLE = "write e.g. --address http://HOST:8265"
# They would override the address, or send the token to any server.
_VARIABLES = ("RAY_API_SERVER_ADDRESS", "RAY_ADDRESS", MODE_VARIABLE)
_CHATTY = ("ray.dashboard.modules.dashboard_sdk", "ray.dashboard.modules.job.sdk", "ray._private.runtime_env.packaging")


class Dashboard(JobSubmissionClient):
    """Client of the dashboard at `address`, checked to accept our requests. Raises UserError within seconds.

    The token is never shown.
    """

    def __init__(self, address: str) -> None:
        self.url = _checked(address)
        for name in _CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)
        remedy = "check host and port; Ray's dashboard has 8265 unless `ray start --dashboard-port` says otherwise"
        hidden = {name: os.environ.pop(name) for name in _VARIABLES if name in os.environ}
        try:
            parts = urllib.parse.urlsplit(self.url)
            port = parts.port or {"http": 80, "https": 443}[parts.scheme]
            socket.create_connection((str(parts.hostname), port), timeout=CONNECT_SECONDS).close()
            try:
                super().__init__(self.url)
            except AuthenticationError:
                token = user_token(f"--address: {self.url}")
                super().__init__(self.url, headers={"Authorization": f"Bearer {token}"})
        except AuthenticationError:
            rule = f"{self.url} refuses the token, which must be that of the cluster"
            raise UserError(f"--address: {rule}; {WHERE_TOKENS_ARE}") from None
        except (RuntimeError, OSError, ValueError, LookupError, TypeError) as error:
            # Another server may answer anything.
            raise broken_rule("--address", f"must be Ray's dashboard ({first_line(error)})", address, remedy) from None
        finally:
            os.environ.update(hidden)

    def alive_nodes(self) -> list[str]:
        """Return the addresses of the cluster's living nodes, one per node. Raises UserError."""
        try:
            answer = self._do_request("GET", "/api/v0/nodes?limit=10000")
            if not answer.ok:
                self._raise_error(answer)
            rows = answer.json()["data"]["result"]["result"]
        except (RuntimeError, OSError, LookupError) as error:
            raise UserError(f"--address: {self.url} must list its nodes ({first_line(error)}); try again") from None
        return [str(row["node_ip"]) for row in rows if row.get("state") == "ALIVE"]

    def _do_request(self, *words: Any, **options: Any) -> Any:  # noqa: ANN401 - as Ray declares it
        return super()._do_request(*words, timeout=_ANSWER_SECONDS, **options)


def _checked(address: str) -> str:
    """Return the address without a slash at its end. Raises UserError."""
    rule = "must be the address of Ray's dashboard, http://HOST:PORT"
    try:
        parts = urllib.parse.urlsplit(address)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise broken_rule("--address", f"{rule} ({error})", address, _EXAMPLE) from None
    if parts.scheme not in {"http", "https"} or not host:
        near = f"write --address http://{address}" if "://" not in address and ":" in address else _EXAMPLE
        raise broken_rule("--address", rule, address, near)
    if parts.username is not None:
        raise broken_rule("--address", f"{rule}, without a password", host, "remove the part before the @")
    if parts.path.strip("/") or parts.query or parts.fragment:
        raise broken_rule("--address", rule, address, "remove the part after the port")
    return f"{parts.scheme}://{parts.netloc}"
