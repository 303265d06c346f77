"""`dprl verify`: certificates recomputed from their own fields."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict
from typing import Annotated

from cyclopts import Parameter

from dprl.platform.commands.base import Json, json_text, say
from dprl.platform.errors import EXIT_DONE, EXIT_SOME_FAILED

CERTIFICATES = "certificate.json, the folder that holds it, or a sweep for its cells"


def verify(
    first: Annotated[str, Parameter("CERT", help=CERTIFICATES)],
    /,
    *more: Annotated[str, Parameter("CERT", help="more of them")],
    as_json: Json = False,
) -> int:
    """Recompute certificates from their own fields, and report inconsistencies.

    Exit codes: 0 all are consistent, 1 a field contradicts the others, 2 bad input. A certificate can be consistent
    although its claim fails, so the verdict of each is shown. Releases and sensitivities are computed from the query
    that a certificate states. The query is not compared with a config, and nothing shows that this noise was drawn. The
    last line names the fields taken as stated.
    """
    from dprl import __version__
    from dprl.platform.reports.verdicts import verdict_line
    from dprl.platform.results.certificates import certificates_in, expanded, verified
    from dprl.privacy.verification import TAKEN_AS_STATED

    paths = expanded([first, *more])
    names = {path: f"{path} ({label})" for path, label in paths if label}
    found = {label: one for path, _ in paths for label, one in certificates_in(path).items()}
    results = {label: verified(label, one) for label, one in found.items()}
    with suppress(BrokenPipeError):  # the exit code is part of the answer, read to its end or not
        if as_json:
            data = [
                {
                    "certificate": label,
                    "stands": each.stands,
                    "differences": [asdict(difference) for difference in each.differences],
                    "taken_as_stated": TAKEN_AS_STATED,
                }
                for label, each in results.items()
            ]
            say(json_text(data))
        else:
            for label, each in results.items():
                told = f"consistent. {verdict_line(found[label])}" if each.stands else "INCONSISTENT"
                lines = [f"{names.get(label, label)}: {told}"]
                if not each.stands and (version := found[label]["version"]) != __version__:
                    made = f"  it says that dprl {version} made it, which may state other bounds and texts"
                    lines.append(f"{made}: verify it with that version, or run its experiment.yaml with this one")
                say("\n".join([*lines, *(f"  {difference}" for difference in each.differences)]))
            say(f"Taken as stated: {', '.join(TAKEN_AS_STATED)} (see docs/certificates.md).")
    return EXIT_DONE if all(each.stands for each in results.values()) else EXIT_SOME_FAILED
