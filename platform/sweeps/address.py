"""Check within seconds that the Ray cluster at an address can be joined and used."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dprl.platform.errors import UserError, broken_rule
from dprl.platform.ray_token import MODE_VARIABLE, TOKEN_MODE, WHERE_TOKENS_ARE, user_token
from dprl.platform.tracking.store import TrackingStore

_CONNECT_SECONDS = 10.0
_ANY_CALL = "/ray.rpc.NodeInfoGcsService/CheckAlive"
_HTTP2_GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_HTTP2_SETTINGS = b"\4"
"""RFC 9113: a client's first bytes, with empty settings, and the fourth byte of the answering frame."""


@contextmanager
def joined_cluster(address: str, home: Path, store: TrackingStore) -> Iterator[None]:
    """Join the Ray cluster at `address`, and check that its nodes share folder, locks and code.

    Raises UserError, before anything is written.
    """
    require_reachable(address)
    # Imported only here: importing Ray takes seconds, and Ray's environment variables must be set before.
    from dprl.platform.sweeps.cluster import connected  # noqa: PLC0415
    from dprl.platform.sweeps.shared_storage import living_nodes, require_shared  # noqa: PLC0415

    with connected(address):
        store.require_server_for(len(living_nodes()))
        require_shared(home)
        yield


def require_reachable(address: str) -> None:
    """Raise UserError unless a Ray that accepts us listens at `address`, host:port or ray://host:port.

    Ray itself would try for minutes. A token is only sent to a server that asks for one.
    """
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
    if os.environ.get("RAY_USE_TLS", "0") == "0":
        _require_token(f"{host}:{port}", address)


def _require_token(server: str, address: str) -> None:
    """Raise UserError if the server asks for a token and there is none, or a wrong one."""
    if not _refuses(server, None):
        return
    place = f"address: {address}"
    token = user_token(place)
    if os.environ.get(MODE_VARIABLE, TOKEN_MODE).lower() != TOKEN_MODE:
        raise broken_rule(MODE_VARIABLE, f"must be {TOKEN_MODE} for {address}", os.environ[MODE_VARIABLE], "unset it")
    if _refuses(server, token):
        raise UserError(f"{place} refuses the token, which must be that of the cluster; {WHERE_TOKENS_ARE}")
    os.environ[MODE_VARIABLE] = TOKEN_MODE


def _refuses(server: str, token: str | None) -> bool:
    """Whether the server turns away a call with this token, or without one."""
    # Only here: a sweep on this machine needs no gRPC of its own.
    import grpc  # noqa: PLC0415

    metadata = [] if token is None else [("authorization", f"Bearer {token}")]
    with grpc.insecure_channel(server, [("grpc.enable_http_proxy", 0)]) as connection:
        try:
            connection.unary_unary(_ANY_CALL)(b"", timeout=_CONNECT_SECONDS, metadata=metadata)
        except grpc.RpcError as error:
            return bool(error.code() == grpc.StatusCode.UNAUTHENTICATED)
    return False
