"""Tests, one file a claim."""
