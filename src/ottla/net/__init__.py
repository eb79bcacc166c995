"""The edge to the network: listening sockets, connections that carry length-prefixed frames, the event loop."""

from ottla.net.channel import RECEIVE_BUFFER_BYTES, Channel, FilePart, FrameReceiver
from ottla.net.listener import Listener
from ottla.net.loop import new_event_loop
from ottla.net.sockets import OsSockets, Socket, Sockets

__all__ = [
    "RECEIVE_BUFFER_BYTES",
    "Channel",
    "FilePart",
    "FrameReceiver",
    "Listener",
    "OsSockets",
    "Socket",
    "Sockets",
    "new_event_loop",
]
