"""``python -m kvwitness`` is the console script."""

from __future__ import annotations

from kvwitness.cli import main

if __name__ == "__main__":
    main()
