"""Makes `benchmarks` importable, a folder of the repository outside the installed package."""

from __future__ import annotations

import sys
from pathlib import Path

_ROOT = str(Path(__file__).resolve().parents[2])

# Remove the root from sys.path again; otherwise `import privacy` would load a second copy of dprl.privacy.
sys.path.insert(0, _ROOT)
try:
    import benchmarks  # noqa: F401 - from now on its parts can be imported
finally:
    sys.path.remove(_ROOT)
