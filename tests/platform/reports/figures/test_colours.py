"""One table of colours, dashes and markers for all figures and pages."""

from __future__ import annotations

import itertools

import pytest
from matplotlib.colors import to_rgb

from dprl.algorithms import ALGORITHMS
from dprl.platform.reports.figures.colours import BLUE, HUES, NEUTRAL, NO_PRIVACY, VERMILION, Shades, colours_of, look

DARK_PAGE = "#131416"


def luminance(colour: str) -> float:
    channels = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return 0.2126 * channels[0] + 0.7152 * channels[1] + 0.0722 * channels[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("shades", [*HUES, NO_PRIVACY, NEUTRAL])
def test_text_can_be_read_on_both_pages(shades: Shades) -> None:
    assert contrast(shades.text_on("light"), "#FFFFFF") >= 4.5
    assert contrast(shades.text_on("dark"), DARK_PAGE) >= 4.5
    assert contrast(shades.line_on("dark"), DARK_PAGE) >= 3.0


def test_no_two_hues_are_alike() -> None:
    for theme in ("light", "dark"):
        for one, other in itertools.combinations([*HUES, NO_PRIVACY], 2):
            distance = sum(
                abs(a - b) for a, b in zip(to_rgb(one.line_on(theme)), to_rgb(other.line_on(theme)), strict=True)
            )
            assert distance > 0.25, (one, other, theme)


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
    assert len(set(colours_of("abcdefg").values())) == 7


def test_of_more_than_seven_those_that_lead_are_coloured() -> None:
    palette = colours_of("abcdefghij", leading=["j", "c"])
    assert [name for name in "abcdefghij" if palette[name] == NEUTRAL] == ["g", "h", "i"]


def test_trust_models_differ_in_dashes_and_markers() -> None:
    central, local, printed = look("jdp"), look("ldp"), look("jdp", noise=1)
    assert central.dashes != local.dashes
    assert (central.marker, local.marker, look("none").marker) == ("o", "s", "")
    assert printed.weight < central.weight
    assert printed.marker != central.marker
