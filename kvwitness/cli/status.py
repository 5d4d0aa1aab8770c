"""Exit status of the commands."""

from __future__ import annotations

PASS = 0
VIOLATIONS = 1
COULD_NOT_RUN = 2
