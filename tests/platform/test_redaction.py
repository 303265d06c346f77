"""Addresses with secrets: the parts that are shown."""

from __future__ import annotations

import pytest

from dprl.platform.errors import UserError
from dprl.platform.redaction import holds_secret, without_secrets
from dprl.platform.tracking.store import TrackingStore


@pytest.mark.parametrize(
    ("uri", "shown"),
    [
        ("http://me:hidden@h:5000/x", "http://...@h:5000/x"),
        ("http://hidden@h:5000", "http://...@h:5000"),
        ("http://me:hidden@hidden@h:5000", "http://...@h:5000"),
        ("postgresql://h/db?password=hidden&x=1", "postgresql://h/db?password=...&x=1"),
        ("postgresql://h/db?user=hidden", "postgresql://h/db?user=..."),
        ("https://h/mlflow?api_key=hidden", "https://h/mlflow?api_key=..."),
        ("https://h/mlflow?client_secret=hidden", "https://h/mlflow?client_secret=..."),
        ("https://h/mlflow?Access_Token=hidden", "https://h/mlflow?Access_Token=..."),
    ],
)
def test_secrets_are_hidden(uri: str, shown: str) -> None:
    assert holds_secret(uri)
    assert without_secrets(uri) == shown


def test_an_address_of_no_known_kind_is_refused_without_its_secret() -> None:
    with pytest.raises(UserError, match=r"must be a database or a server, got 'postgre://\.\.\.@db/x'"):
        TrackingStore("postgre://me:hidden@db/x", None)


@pytest.mark.parametrize(
    "text", ["http://h:5000", "sqlite:////a/b.db", "--set", "privacy={model: jdp}", "http://[bad", ""]
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert without_secrets(text) == text
