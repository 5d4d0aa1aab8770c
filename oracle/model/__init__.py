"""The vocabulary: declarations, layouts and plans. Nothing here decides what is true of a case."""
