"""Faults of block alignment: which block of the sender goes to which of the receiver (spec: blocks, 2.2)."""
