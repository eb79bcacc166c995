"""Whole-node simulation: the shipped node on a virtual clock, an in-memory network and a disk that lies."""
