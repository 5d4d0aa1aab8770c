"""What is true of a case: which element every byte is, which bytes are due, and what a plan does wrong."""
