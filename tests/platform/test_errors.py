"""One-line errors: their length, and the keys that they name."""

from __future__ import annotations

import pytest

from dprl.platform.errors import UserError, below, missing_extra, nearest


@pytest.mark.parametrize("long", ["x" * 5000, "\x00" * 400, "x, " * 500])
def test_a_line_has_at_most_300_characters_and_keeps_its_place_and_remedy(long: str) -> None:
    line = f"dprl: {UserError(f'env.name: must be short, got {long}; write less')}"
    assert len(line) <= 300
    assert line.startswith("dprl: env.name: must be short")
    assert line.endswith("; write less")


def test_a_message_that_names_no_key_of_the_section_stays_as_it_is() -> None:
    keys = ["epsilon", "counter"]
    assert below("privacy", keys, "counter: x takes y") == "privacy.counter: x takes y"
    assert below("privacy", keys, "epsilon must be y") == "privacy.epsilon must be y"
    assert below("privacy", keys, "n_users must be y") == "n_users must be y"
    assert below("privacy", keys, "epsilons must be y") == "epsilons must be y"


def test_a_name_of_an_earlier_version_is_followed_by_its_name_of_today() -> None:
    assert nearest("best_ucb_vi", ["private_ucb_vi", "bernstein_vi"]) == "bernstein_vi"


def test_a_missing_module_of_an_extra_names_the_extra() -> None:
    found = missing_extra(ModuleNotFoundError("No module named 'ray.tune'", name="ray.tune"))
    assert str(found).startswith("ray must be installed for this, got no such package; run: pip install 'dprl[ray]'")
