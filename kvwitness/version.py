"""The version of this installation."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("kvwitness")
except PackageNotFoundError:  # run from a source tree that is not installed
    VERSION = "not installed"
