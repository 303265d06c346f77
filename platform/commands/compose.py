"""`dprl compose`: the joint certificate of several runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from dprl.platform.commands.base import Json, json_text, say, unwritable
from dprl.platform.commands.verify import CERTIFICATES
from dprl.platform.errors import EXIT_DONE


def compose(
    first: Annotated[str, Parameter("CERT", help=f"{CERTIFICATES}; all must be finished")],
    /,
    *more: Annotated[str, Parameter("CERT", help="more of them")],
    disjoint: Annotated[
        bool, Parameter(help="you state that no user is in two runs: the worst run counts (default: losses add up)")
    ] = False,
    out: Annotated[str | None, Parameter(help="write the joint certificate to a file")] = None,
    as_json: Json = False,
) -> int:
    """Compose the certificates of several runs on the same or on disjoint users into one."""
    from dprl.atomic_files import write_json
    from dprl.platform.reports.verdicts import certificate_text
    from dprl.platform.results.certificates import composed, expanded

    paths = [path for path, _ in expanded([first, *more], whole=True)]
    certificate = composed(paths, disjoint).to_dict()
    if out is not None:
        try:
            write_json(Path(out), certificate)
        except OSError as error:
            raise unwritable(out, error) from None
    if as_json:
        say(json_text(json.loads(json.dumps(certificate))))
    else:
        say(certificate_text(f"{len(certificate['composition']['of'])} together", certificate))
        users = " and that no user is in two of them" if disjoint else ""
        say(f"Assumed, not checked: that the runs drew independent noise{users}.")
        say("Runs with equal seed and settings did not: leave such runs out.")
    return EXIT_DONE
