"""``python -m tests.fuzz 1000000``: read a million mutated files, with the bounds of all kernels checked."""

import os
import sys
from pathlib import Path
from tempfile import gettempdir

if __name__ == "__main__":
    os.environ.setdefault("NUMBA_BOUNDSCHECK", "1")
    # Kernels with and without checks must not share a cache.
    os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(gettempdir(), f"marginrank-checked-{os.getuid()}")))
    from tests.fuzz.running import main

    sys.exit(main())
