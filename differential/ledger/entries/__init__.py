"""Known differences, one a file: a module defines ``ENTRY``, and its witness stands in ``witnesses``."""
