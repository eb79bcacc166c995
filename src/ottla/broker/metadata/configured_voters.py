"""The voters of the metadata quorum that a node knows from its configuration."""

from __future__ import annotations

from ottla.config import BrokerConfig
from ottla.raft import Voter, Voters

_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


def configured_voters(config: BrokerConfig) -> Voters:
    """The voters that the configuration names. If it names none, the log does (dynamic voters); a controller that knows
    of no other is a quorum of one.
    """
    if not config.voters:
        return Voters.static(config.node_id) if _is_alone(config) else Voters()
    listener = config.controller_listener_names[0] if config.controller_listener_names else ""
    return Voters(
        0,
        {
            voter.node_id: Voter(voter.node_id, endpoints=((listener, voter.host, voter.port),))
            for voter in sorted(config.voters)
        },
    )


def _is_alone(config: BrokerConfig) -> bool:
    """Whether a node that names no voters is a controller, and finds the quorum nowhere but at its own address."""
    own = {
        f"{host}:{listener.port}"
        for listener in (*config.controller_listeners, *config.advertised_controller_listeners)
        for host in (listener.host, *_LOOPBACK)
    }
    return config.is_controller and all(server in own for server in config.controller_quorum_bootstrap_servers)
