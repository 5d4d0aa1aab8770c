"""What can happen: cases drawn from a few small numbers, enumerated in a small scope, or given as a deployment."""
