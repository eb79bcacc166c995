"""Stands in for the `cython` module where that is not installed: the kernel asks it only whether it is compiled."""

compiled = False
