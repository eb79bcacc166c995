"""A node put together: storage, metadata, network and the APIs."""

from ottla.broker.node import Node, StartError

__all__ = ["Node", "StartError"]
