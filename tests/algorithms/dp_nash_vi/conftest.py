"""Makes `benchmarks` importable, whose linprog program is the oracle of whole runs."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[3])

# The root leaves sys.path again, or `import privacy` would find a second copy of dprl.privacy there.
sys.path.insert(0, _ROOT)
try:
    import benchmarks  # noqa: F401 - from now on its parts can be imported
finally:
    sys.path.remove(_ROOT)
