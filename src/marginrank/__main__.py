"""``python -m marginrank`` and the command ``marginrank``."""

from __future__ import annotations

import os
import signal


def main() -> None:
    """Run the command line; Ctrl-C while it is being imported ends it as quietly as later."""
    before = signal.signal(signal.SIGINT, lambda *_: os._exit(130))
    from marginrank.cli.app import main as run  # noqa: PLC0415

    signal.signal(signal.SIGINT, before)
    try:
        run()
    except KeyboardInterrupt:
        os._exit(130)


if __name__ == "__main__":
    main()
