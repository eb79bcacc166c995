"""What the clients decide, without clock, chance and I/O."""
