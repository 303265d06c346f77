"""One-line errors: their length, the keys that they name, and addresses without their secrets."""

from __future__ import annotations

import pytest

from dprl.platform.errors import UserError, first_line, missing_extra, nearest, shown, suggestion
from dprl.platform.redaction import holds_secret, without_secrets
from dprl.platform.tracking.store import TrackingStore


@pytest.mark.parametrize("long", ["x" * 5000, "\x00" * 400, "x, " * 500])
def test_a_line_has_at_most_300_characters_and_keeps_its_place_and_remedy(long: str) -> None:
    line = f"dprl: {UserError(f'env.name: must be short, got {long}; write less')}"
    assert len(line) <= 300
    assert line.startswith("dprl: env.name: must be short")
    assert line.endswith("; write less")


def test_only_a_longer_line_is_cut() -> None:
    longest = f"a: {'w ' * 145}w"
    assert len(f"dprl: {longest}") == 300
    assert str(UserError(longest)) == longest
    assert " ... " in str(UserError(f"{longest}w"))


def test_a_value_in_a_message_is_a_line_of_at_most_60_characters() -> None:
    assert shown("x" * 58) == repr("x" * 58)
    assert shown("x" * 59) == f"'{'x' * 56}..."
    assert shown({"a": "\n"}) == r"{'a': '\n'}"
    assert str(UserError("a\tb\n\x00")) == r"a b \x00"


def test_an_error_without_a_text_has_the_name_of_its_class() -> None:
    assert [first_line(ValueError(text)) for text in ("one\ntwo", "")] == ["one", "ValueError"]


@pytest.mark.parametrize(
    ("name", "meant"), [("jpd", "jdp"), ("cdp", None), ("dp", None), ("ri", None), ("riverswin", "riverswim")]
)
def test_a_suggestion_has_similar_letters(name: str, meant: str | None) -> None:
    assert nearest(name, ["ldp", "jdp", "riverswim"]) == meant


def test_a_remedy_lists_the_valid_names() -> None:
    assert suggestion("jpd", ["ldp", "jdp"]) == "did you mean 'jdp'? (valid: ldp, jdp)"
    assert [suggestion("x", names) for names in (["ldp", "jdp"], [])] == ["valid: ldp, jdp", "valid: none"]


@pytest.mark.parametrize(
    ("module", "remedy"),
    [("ray.tune", "pip install 'dprl[ray]'; `dprl run` needs no Ray"), ("tree", "pip install 'dprl[rllib]'")],
)
def test_a_missing_module_of_an_extra_names_the_extra(module: str, remedy: str) -> None:
    package = module.partition(".")[0]
    found = missing_extra(ModuleNotFoundError(f"No module named {module!r}", name=module))
    assert str(found) == f"{package} must be installed for this, got no such package; run: {remedy}"
    with pytest.raises(ModuleNotFoundError):
        missing_extra(ModuleNotFoundError("No module named 'other'", name="other"))


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
