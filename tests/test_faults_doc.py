"""docs/faults.md lists every planted fault as it is, and every report of block alignment with what became of it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from differential import faults
from differential.faults import find_fault, names

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "faults.md").read_text(encoding="utf-8")
OF_BLOCK_ALIGNMENT = (
    *(f"B{number:02}" for number in (1, 2, 3, 4, 5, 6, 8, 10, 11, 12, 13, 15, 17, 18, 19)),
    *("B41", "B42", "B44", "B48", "B74"),
)
"""The log's reports of block alignment."""


def class_of(name: str) -> str:
    return faults._modules()[name].split(".")[-2]


def row_of(name: str) -> str:
    """The row of a fault in the table of its class."""
    fault = find_fault(name)
    kinds = ", ".join(sorted(kind.value for kind in fault.kinds))
    least = ", ".join(map(str, fault.minimum))
    subject = f"`{fault.base}`" if fault.base else "any"
    number = f"{fault.report.partition(' ')[0]} " if fault.report else ""
    return f"| `{name}` | {fault.description} | {subject} | {kinds} | {least} | {number}|"


def section(title: str) -> list[str]:
    """The rows of the table under a heading."""
    _, found, rest = PAGE.partition(f"\n## {title}\n")
    assert found, title
    return [line for line in rest.partition("\n## ")[0].splitlines() if re.match(r"\| (`|B\d)", line)]


@pytest.mark.parametrize("package", sorted({class_of(name) for name in names()}))
def test_every_fault_stands_in_the_table_of_its_class(package: str) -> None:
    title = package.replace("_", " ").capitalize()
    rows = [row_of(name) for name in names() if class_of(name) == package]
    assert section(title) == rows, "\n".join(rows)


def test_every_report_of_block_alignment_is_planted_or_says_why_not() -> None:
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in section("Reports of block alignment")]
    assert tuple(row[0] for row in rows) == OF_BLOCK_ALIGNMENT
    assert all(re.search(r"[\w.-]+/[\w.-]+#\d+", row[1]) for row in rows)
    for number, report, planted, why in rows:
        found = re.findall(r"`([\w-]+)`", planted)
        assert set(found) <= set(names()), number
        # Not planted: there is a reason.
        assert found or (planted == "no" and len(why) > 30), number
        cited = [find_fault(name).report for name in found if find_fault(name).report.startswith(f"{number} ")]
        assert all(text.endswith(report.split(",")[0]) for text in cited), number


def test_a_fault_that_cites_a_report_of_block_alignment_is_named_there() -> None:
    cells = [line.split("|") for line in section("Reports of block alignment")]
    rows = {each[1].strip(): each[3] for each in cells}
    for name in names():
        number = find_fault(name).report.partition(" ")[0]
        if class_of(name) == "block_alignment" and number in OF_BLOCK_ALIGNMENT:
            assert f"`{name}`" in rows[number]
