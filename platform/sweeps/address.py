"""The address of a running Ray cluster: whether it can be joined and used, told in seconds."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dprl.platform.errors import broken_rule
from dprl.platform.tracking.store import TrackingStore

_CONNECT_SECONDS = 10.0
_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_HTTP2_SETTINGS = b"\4"
"""RFC 9113: what a client says first, with empty settings, and the kind of frame (its fourth byte) that answers."""


@contextmanager
def joined_cluster(address: str | None, home: Path, store: TrackingStore) -> Iterator[None]:
    """Join the Ray cluster at `address`, if there is one, and see that its nodes share what they must.

    Raises UserError, before anything is written.
    """
    if address is None:
        yield
        return
    require_reachable(address)
    # Loaded only here: importing Ray takes seconds, and needs its environment set before.
    from dprl.platform.sweeps.cluster import connected  # noqa: PLC0415
    from dprl.platform.sweeps.shared_storage import living_nodes, require_shared  # noqa: PLC0415

    with connected(address):
        store.require_server_for(len(living_nodes()))
        require_shared(home)
        yield


def require_reachable(address: str) -> None:
    """Raise UserError if no gRPC server listens at `address`, host:port or ray://host:port: Ray tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host:
        return  # 'auto', which Ray looks up itself
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS) as connection:
            if os.environ.get("RAY_USE_TLS", "0") == "0":
                connection.sendall(_HTTP2_GREETING)
                answer = connection.recv(9)
                if answer[3:4] != _HTTP2_SETTINGS:
                    raise ConnectionError("what listens there is not Ray")
    except (OSError, ValueError, OverflowError) as error:
        rule, remedy = f"must be where Ray listens ({error})", "check it with `ray status --address ADDR`"
        raise broken_rule("address", rule, address, remedy) from error
