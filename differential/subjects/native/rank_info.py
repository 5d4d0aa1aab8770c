"""What a rank publishes of itself: parallel coordinates, the attention record, its views (spec: legacy sender, 1)."""

from __future__ import annotations

from differential.subjects.native.declared import Declared
from differential.subjects.native.settings import Settings
from differential.subjects.native.topology import Shape
from differential.subjects.native.views import Table
from oracle.model.instance import Instance
from oracle.model.records import frozen
from oracle.model.topology import Rank


@frozen()
class Attention:
    """One record for the whole cache of a rank, whatever its layers are.

    ``heads`` is the first head count that is not zero of the rank's per-layer list, else 0. Elements
    are counted in bits: 4-bit caches have half a byte. ``latent``: no value buffer.
    """

    heads: int
    tokens_per_block: int
    dims: int
    element_bits: int
    latent: bool


@frozen()
class RankInfo:
    """A rank as its peers know it. ``dp`` is its attention-DP rank, 0 without attention DP."""

    rank: Rank
    shape: Shape
    dp: int
    attention: Attention | None
    state_grid: tuple[int, int]
    table: Table

    @property
    def tensor_rank(self) -> int:
        """Tensor rank inside the attention-DP group."""
        return self.rank.tp % self.shape.group_size


def shape_of(declared: Declared, instance: Instance) -> Shape:
    """The published sizes. Without an attention record the group is the whole tensor grid, attention DP or not."""
    topology = instance.topology
    group_size = 1 if topology.attention_dp and declared.has_attention else topology.tp
    return Shape(topology.stages, topology.tp, topology.cp, group_size, topology.attention_dp)


def attention_of(declared: Declared, instance: Instance, stage: int, settings: Settings) -> Attention | None:
    """The attention record of the ranks of ``stage``; ``None`` if the model has no paged buffer."""
    if not declared.has_attention:
        return None
    layers = instance.in_layer_order(instance.topology.stage_layers(stage))
    heads = next((declared.heads[layer] for layer in layers if layer in declared.heads), None)
    if heads is None and settings.suffix:
        heads = next(iter(declared.heads.values()), None)
    split = 1 if instance.topology.attention_dp else instance.topology.tp
    return Attention(
        0 if heads is None else heads.per_rank(split),
        instance.tokens_per_block,
        declared.dims,
        declared.element_bits,
        declared.latent,
    )
