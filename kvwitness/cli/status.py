"""Exit status of the commands."""

from __future__ import annotations

PASS = 0
VIOLATIONS = 1
COULD_NOT_RUN = 2
SKIP_IN_BISECT = 125
"""What ``git bisect run`` takes for "cannot tell"; any other status above 0 means bad to it."""
