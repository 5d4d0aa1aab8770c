"""Ids that stand for no element."""

NEVER = -1
"""a byte of the destination that nothing may reach"""
FOREIGN = -2
"""a source byte outside every resident block: another owner's, scratch or stale"""
PADDING = -3
"""a source byte of a resident block that belongs to no buffer"""
INCOMPATIBLE = 1 << 60
"""added to source ids where the sides cut elements or blocks differently: no byte means the same"""
