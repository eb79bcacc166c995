"""Small programs over ottla.client, one per promise. Each runs as it stands: `python -m examples.at_least_once`."""
