"""The pages of one instance: its page tables and the declarations to read them by."""

from __future__ import annotations

from oracle.model.buffers import GroupKind, Model
from oracle.model.errors import InvalidCase
from oracle.model.instance import Instance
from oracle.model.pages import PageTable
from oracle.model.records import Hashed, record
from oracle.model.topology import Rank


@record
class Pages(Hashed):
    """What the cache managers of one instance describe once: ``tables`` by rank number."""

    model: Model
    instance: Instance
    tables: tuple[PageTable, ...]

    def __post_init__(self) -> None:
        size = self.instance.topology.size
        if len(self.tables) != size:
            raise InvalidCase("pages.tables", len(self.tables), f"expected one page table for each of {size} ranks")

    @property
    def identity(self) -> tuple[int, ...]:
        """Which objects these are, as long as they are kept."""
        return (id(self.model), id(self.instance), *map(id, self.tables))

    def of_rank(self, number: int) -> RankPages:
        return RankPages(self, number)


@record
class RankPages(Hashed):
    """The pages of one rank, with those of its instance: who else holds an index decides who sends it."""

    pages: Pages
    number: int

    def __post_init__(self) -> None:
        self.pages.instance.topology.rank(self.number)

    @property
    def rank(self) -> Rank:
        return self.pages.instance.topology.rank(self.number)

    @property
    def table(self) -> PageTable:
        return self.pages.tables[self.number]


def layer_group_of(table: PageTable, layer: int, role: str) -> int:
    """The layer group, by index, that buffer (``layer``, ``role``) belongs to; ``InvalidCase`` if it is not there."""
    for entry in table.entries:
        if entry.layer == layer and entry.role == role:
            return entry.group
    keys = sorted({(entry.layer, entry.role) for entry in table.entries})
    raise InvalidCase("layer, role", (layer, role), f"this page table has {keys}")


def group_kinds(pages: RankPages) -> dict[int, GroupKind]:
    """The kind, paged or state, of each layer group that the rank's page table has."""
    return {group: pages.pages.model.groups[group].kind for group in pages.table.groups()}
