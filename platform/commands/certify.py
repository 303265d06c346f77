"""`dprl certify`: the planned certificate of each cell, or of planned counts without a config."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated

from cyclopts import Group, Parameter

from dprl.platform.commands.base import Json, Settings, expanded_cells, json_text, say, whole
from dprl.platform.errors import EXIT_DONE, UserError, broken_rule

_Text = str | None


@Parameter(name="*", group=Group("planned counts of an MDP, without CONFIG"))
@dataclass(frozen=True)
class Planned:
    """Settings of planned counts."""

    model: Annotated[_Text, Parameter(help="trust model (default: jdp)")] = None
    epsilon: Annotated[float | None, Parameter(help="epsilon of the guarantee")] = None
    delta: Annotated[float | None, Parameter(help="delta of the guarantee (default: 0)")] = None
    mechanism: Annotated[_Text, Parameter(help="noise, e.g. gaussian (default: auto)")] = None
    counter: Annotated[_Text, Parameter(help="continual counter of jdp, e.g. binary_tree (default: auto)")] = None
    families: Annotated[_Text, Parameter(help="released counts: separate or one_hot (default: auto)")] = None
    users: Annotated[int | None, whole(1, 10**9, "number of users, one episode each")] = None
    horizon: Annotated[int | None, whole(1, 10**9, "steps per episode")] = None
    states: Annotated[int | None, whole(1, 10**9, "number of states of the MDP (default: 2)")] = None
    actions: Annotated[int | None, whole(1, 10**9, "number of actions of the MDP (default: 2)")] = None


def certify(
    config: Annotated[_Text, Parameter(help="a YAML file, or the name of one in tune_configs/")] = None,
    /,
    *,
    settings: Settings = (),  # type: ignore[assignment]
    planned: Planned | None = None,
    as_json: Json = False,
) -> int:
    """Show the privacy certificate of each cell without running it, or of planned counts without a config."""
    from dprl.platform.configs.config import planned_certificate, planned_certificates
    from dprl.platform.configs.experiment import labels_of
    from dprl.platform.reports.terminal import table_text
    from dprl.platform.reports.verdicts import certificate_text, certificates_table

    given = {name: value for name, value in asdict(planned or Planned()).items() if value is not None}
    if config is None:
        if settings:
            raise broken_rule("--set", "is for a config", settings[0], "name one")
        if not given:
            remedy = "name one, or write e.g. --epsilon 1 --users 100 --horizon 5"
            raise UserError(f"CONFIG: is required, got nothing; {remedy}")
        labels, certificates = ["planned counts"], [planned_certificate(given).to_dict()]
    elif given:
        name, value = next(iter(given.items()))
        raise broken_rule(f"--{name}", "is for planned counts, without CONFIG", value, "write --set, or leave it out")
    else:
        cells = expanded_cells(config, settings, run=False)
        labels, certificates = labels_of(cells), planned_certificates(cells)
    if as_json:
        say(json_text(certificates))
    else:
        texts = list(map(certificate_text, labels, certificates))
        if len(labels) > 1:
            table, notes = certificates_table(labels, certificates)
            texts.append("\n".join([table_text(table), *notes]))
        say("\n\n".join(texts))
    return EXIT_DONE
