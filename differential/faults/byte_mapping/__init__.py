"""Faults of the byte mapping: which bytes a rank sends, from whom, to where."""
