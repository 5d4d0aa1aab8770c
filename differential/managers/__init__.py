"""Models of cache managers: what they would hand over to a sender or receiver."""
