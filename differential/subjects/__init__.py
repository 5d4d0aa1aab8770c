"""Implementations under test: each turns a case and the facts of its cache managers into a plan."""
