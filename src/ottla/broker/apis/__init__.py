"""The APIs a node answers, one file each, imported with the first request for it."""
