"""A node put together: storage, metadata, network and the APIs."""
