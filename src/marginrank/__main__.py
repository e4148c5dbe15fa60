"""``python -m marginrank`` is the command line."""

from __future__ import annotations

from marginrank.cli.app import main

if __name__ == "__main__":
    main()
