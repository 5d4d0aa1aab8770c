"""What is true about the bytes of a KV cache that two ranks share."""
