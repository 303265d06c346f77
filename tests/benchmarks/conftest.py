"""Makes `benchmarks` importable: it is a folder of the repository, not a part of the installed package."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[2])

# The root leaves sys.path again, or `import privacy` would find a second copy of dprl.privacy there.
sys.path.insert(0, _ROOT)
try:
    import benchmarks  # noqa: F401
finally:
    sys.path.remove(_ROOT)
