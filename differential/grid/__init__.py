"""Grids: every manager with every pair of split instances, each cell judged and compared (spec: mapping, the grid).

``upstream`` has the 16 managers that upstream names, ``all`` has one or more of every cache kind; each meets the same 7
context and 9 generation topologies. Served and refused are counted apart, with the code of the refusal.
"""

from __future__ import annotations

from differential.grid.cells import GridCell, grid_cells, prompts_of
from differential.grid.managers import FURTHER, GRIDS, UPSTREAM, Manager, managers_of
from differential.grid.report import GridReport, GridRow, run_grid

__all__ = [
    "FURTHER",
    "GRIDS",
    "UPSTREAM",
    "GridCell",
    "GridReport",
    "GridRow",
    "Manager",
    "grid_cells",
    "managers_of",
    "prompts_of",
    "run_grid",
]
