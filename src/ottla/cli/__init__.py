"""Ottla's commands, one file each."""
