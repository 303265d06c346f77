"""One table of colours, dashes and markers for all figures and pages."""

from __future__ import annotations

import itertools

import pytest
from matplotlib.colors import to_rgb

from dprl.algorithms import ALGORITHMS
from dprl.platform.reports.figures.colours import (
    BLUE,
    HUES,
    MARKER_WORDS,
    NEUTRAL,
    NO_PRIVACY,
    VERMILION,
    Shades,
    colours_of,
    look,
)


def luminance(colour: str) -> float:
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("shades", [*HUES, NO_PRIVACY, NEUTRAL])
def test_text_can_be_read(shades: Shades) -> None:
    assert contrast(shades.text, "#FFFFFF") >= 4.5


def test_an_algorithm_keeps_its_colour_whatever_stands_beside_it() -> None:
    alone = colours_of(["private_ucb_vi"])
    together = colours_of(["pucb", "bernstein_vi", "private_ucb_vi", "a_plugin"])
    assert alone["private_ucb_vi"] == together["private_ucb_vi"] == VERMILION
    assert together["bernstein_vi"] == BLUE


def test_algorithms_of_one_report_have_different_colours() -> None:
    for pair in itertools.combinations(sorted(ALGORITHMS), 2):
        palette = colours_of(pair)
        assert palette[pair[0]] != palette[pair[1]], pair


def test_plugins_have_colours_by_name_and_not_by_order() -> None:
    assert colours_of(["b", "a", "pucb"]) == colours_of(["pucb", "a", "b"])
    assert len(set(colours_of("abcdefgh").values())) == 8


def test_of_more_than_eight_those_that_lead_are_coloured() -> None:
    palette = colours_of("abcdefghij", leading=["j", "c"])
    assert [name for name in "abcdefghij" if palette[name] == NEUTRAL] == ["h", "i"]


def test_trust_models_differ_in_dashes_and_markers() -> None:
    central, local, printed = look("jdp"), look("ldp"), look("jdp", noise=1)
    assert central.dashes != local.dashes
    assert (central.marker, local.marker, look("none").marker) == ("o", "s", "")
    assert printed.weight < central.weight
    assert printed.marker != central.marker


def test_captions_have_words_for_the_markers_of_all_trust_models() -> None:
    words = [MARKER_WORDS[look(model).marker] for model in ("jdp", "ldp", "shuffle", "of_a_plugin")]
    assert words == ["circles", "squares", "plus signs", "plus signs"]
