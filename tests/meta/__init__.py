"""Tests of the checkers: what they must notice is planted."""
