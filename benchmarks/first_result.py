"""One private episode in a fresh process: what importing and compiling cost. Prints a line of JSON."""

from __future__ import annotations

import json
import time


def main() -> None:
    """Time the import, then building a learner and its first episode."""
    from benchmarks import subjects  # noqa: PLC0415  (the import is what is timed)

    imported = time.process_time()
    subjects.UCB_VI.ours(subjects.riverswim(), "jdp", episodes=1000)
    print(json.dumps({"import": imported, "first_episode": time.process_time() - imported}))


if __name__ == "__main__":
    main()
