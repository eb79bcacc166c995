"""The decisions of the clients, without clock, chance and I/O."""
