"""`dprl certify`: the planned certificate of each cell, or of planned counts without a config."""

from __future__ import annotations

import argparse
from typing import Any

from dprl.platform.commands.base import add_json, add_set, as_json, expanded_cells, say
from dprl.platform.errors import EXIT_DONE, UserError, broken_rule

HELP = "show the privacy certificate of each cell without running it, or of planned counts without a config"
EXAMPLE = "certify regret_vs_epsilon --set episodes=1000"
_PLANNED = {
    "model": "trust model (default: jdp)",
    "epsilon": "epsilon of the guarantee",
    "delta": "delta of the guarantee (default: 0)",
    "mechanism": "noise, e.g. gaussian (default: auto)",
    "counter": "continual counter of jdp, e.g. binary_tree (default: auto)",
    "families": "released counts: separate or one_hot (default: auto)",
    "users": "number of users, one episode each",
    "horizon": "steps per episode",
    "states": "number of states of the MDP (default: 2)",
    "actions": "number of actions of the MDP (default: 2)",
}


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    config = "a YAML file, or the name of one in tune_configs/; leave it out for planned counts"
    parser.add_argument("config", metavar="CONFIG", nargs="?", help=config)
    add_set(parser)
    planned = parser.add_argument_group("planned counts of an MDP, without CONFIG")
    for name, text in _PLANNED.items():
        planned.add_argument(f"--{name}", metavar=name[0].upper(), help=text)
    add_json(parser)
    example = "certify --mechanism gaussian --epsilon 1 --delta 1e-6 --users 1000 --horizon 5"
    parser.epilog = f"{parser.epilog}\n         {parser.prog.partition(' ')[0]} {example}"


def run(options: argparse.Namespace) -> int:
    """Show every cell's planned certificate and a table of all, or the one of planned counts."""
    from dprl.platform.configs.config import labels_of, planned_certificates
    from dprl.platform.configs.varying import unequal_schedules
    from dprl.platform.reports.terminal import table_text
    from dprl.platform.reports.verdicts import certificate_text, certificates_table

    given = {name: getattr(options, name) for name in _PLANNED if getattr(options, name) is not None}
    if options.config is None:
        labels, certificates = ["planned counts"], [_planned(options, given)]
    elif given:
        name, value = next(iter(given.items()))
        raise broken_rule(f"--{name}", "is for planned counts, without CONFIG", value, "write --set, or leave it out")
    else:
        cells = expanded_cells(options)
        labels, certificates = labels_of(cells), planned_certificates(cells)
    if options.json:
        say(as_json(certificates))
    else:
        texts = list(map(certificate_text, labels, certificates))
        if len(labels) > 1:
            table, notes = certificates_table(labels, certificates)
            texts.append("\n".join([table_text(table), *notes]))
        if remark := unequal_schedules([each["parameters"] for each in certificates if "parameters" in each]):
            texts.append(remark)
        say("\n\n".join(texts))
    return EXIT_DONE


def _planned(options: argparse.Namespace, given: dict[str, str]) -> dict[str, Any]:
    from dprl.platform.configs.planned import planned_certificate

    if options.set:
        raise broken_rule("--set", "is for a config", options.set[0], "name one")
    if not given:
        raise UserError("CONFIG: is required, got nothing; name one, or write e.g. --epsilon 1 --users 100 --horizon 5")
    return planned_certificate({name: _number(value) for name, value in given.items()}).to_dict()


def _number(text: str) -> int | float | str:
    """Return `text` as a number if it is one, else as it is."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
