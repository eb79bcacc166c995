"""The edge to the network: listening sockets, connections that carry length-prefixed frames, the event loop."""

from ottla.net.beside import beside_loop
from ottla.net.channel import Channel, FilePart, FrameReceiver, FrameTooLarge, ReceiveBuffers
from ottla.net.deadlines import Deadline, Deadlines
from ottla.net.dial import dial
from ottla.net.driver import DeadlineTimer, Driver, log_step
from ottla.net.event_text import event_text
from ottla.net.listener import Listener
from ottla.net.loop import new_event_loop
from ottla.net.peer import EncodedRequest, NoAnswer, Peer
from ottla.net.sockets import OsSockets, Socket, Sockets

__all__ = [
    "Channel",
    "Deadline",
    "DeadlineTimer",
    "Deadlines",
    "Driver",
    "EncodedRequest",
    "FilePart",
    "FrameReceiver",
    "FrameTooLarge",
    "Listener",
    "NoAnswer",
    "OsSockets",
    "Peer",
    "ReceiveBuffers",
    "Socket",
    "Sockets",
    "beside_loop",
    "dial",
    "event_text",
    "log_step",
    "new_event_loop",
]
