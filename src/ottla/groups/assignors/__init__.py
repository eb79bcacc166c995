"""Server-side assignors (KIP-848): which member of a group reads which partitions."""
