"""The roles in a simulated cluster: brokers, controllers, or both, and which of them vote.

Brokers have the ids 1, 2, ... and are called node-1, node-2, ...; controllers that are nothing else come behind them.
With dynamic voters the metadata log says who votes (KIP-853): all folders are formatted with the same first voters, as
`kafka-storage format --initial-controllers` does, and the others look for the quorum at the bootstrap servers.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from ottla.broker.metadata.data_folder import formatted_records, new_uuid, replace_file
from ottla.broker.metadata.snapshots import SnapshotId, encode_snapshot
from ottla.cluster.features import LATEST_METADATA_VERSION
from ottla.raft import Voter, Voters
from ottla.sim.cluster import CONTROLLER_PORT, DATA, PORT
from ottla.sim.disk import Device
from ottla.storage import MetaProperties, write_meta_properties

LISTENER = "CONTROLLER"
SASL_PORT = 9094
CLUSTER_ID = "5UMBKuzvRImgRPf-r-pVuA"

_NODES_LOGIN = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="broker" password="of-nodes" user_broker="of-nodes";'
)
SECURED = {
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "inter.broker.listener.name": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": _NODES_LOGIN,
    "listener.name.controller.plain.sasl.jaas.config": _NODES_LOGIN,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:broker;User:ANONYMOUS",
}
"""Of nodes with logins: nodes log in to each other by PLAIN, users by SCRAM. Administrators of simulated worlds come by
the plain listener."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many brokers; how many of them are also controllers, and how many controllers are nothing else."""

    broker_count: int = 3
    combined_count: int = 3
    controller_count: int = 0
    has_dynamic_voters: bool = False
    voter_count: int = 0
    """With dynamic voters: how many controllers vote at first; 0 for all."""
    has_logins: bool = False
    """Whether brokers have a listener with SASL beside the plain one, and all nodes an authorizer."""

    @classmethod
    def drawn(cls, rng: random.Random, *, is_dynamic: bool = False) -> Shape:
        brokers = rng.choice((3, 3, 3, 4, 5, 6, 7))
        if is_dynamic:
            return cls(brokers, min(brokers, rng.choice((3, 4, 5))), 0, True, rng.choice((1, 2, 3)))
        if rng.random() < 0.3:
            return cls(brokers, 0, rng.choice((1, 3, 3)))
        return cls(brokers, rng.choice((3, 5)) if brokers >= 5 else 3)

    @property
    def brokers(self) -> list[str]:
        return [f"node-{id}" for id in range(1, self.broker_count + 1)]

    @property
    def names(self) -> list[str]:
        """All hosts, in the order of their ids."""
        return [*self.brokers, *(f"controller-{number}" for number in range(1, self.controller_count + 1))]

    @property
    def controllers(self) -> list[str]:
        return [*self.brokers[: self.combined_count], *self.names[self.broker_count :]]

    def id_of(self, name: str) -> int:
        return self.names.index(name) + 1

    @property
    def first_voters(self) -> list[str]:
        return self.controllers[: self.voter_count or None]

    def properties(self, name: str) -> dict[str, str]:
        """The settings for a node's place in the cluster."""
        roles, listeners = [], []
        if name in self.brokers:
            roles.append("broker")
            listeners.append(f"PLAINTEXT://{name}:{PORT}")
            if self.has_logins:
                listeners.append(f"SASL_PLAINTEXT://{name}:{SASL_PORT}")
        if name in self.controllers:
            roles.append("controller")
            listeners.append(f"{LISTENER}://{name}:{CONTROLLER_PORT}")
        properties = {
            "process.roles": ",".join(roles),
            "listeners": ",".join(listeners),
            "controller.quorum.voters": "",
        }
        if self.has_logins:
            properties |= SECURED
        if self.has_dynamic_voters:
            places = ",".join(f"{other}:{CONTROLLER_PORT}" for other in self.controllers)
            properties["controller.quorum.bootstrap.servers"] = places
        else:
            properties["controller.quorum.voters"] = ",".join(
                f"{self.id_of(other)}@{other}:{CONTROLLER_PORT}" for other in self.controllers
            )
        return properties

    def voter(self, name: str) -> Voter:
        return Voter(self.id_of(name), self.directory_id(name), ((LISTENER, name, CONTROLLER_PORT),))

    @staticmethod
    def directory_id(name: str) -> bytes:
        return new_uuid(random.Random(f"directory of {name}"))

    def format(self, device: Device, name: str, timestamp: int) -> None:
        """With dynamic voters: format a node's folder as the tool does; only the first voters are formatted as
        voters."""
        disk = device.mount()
        disk.make_directory(DATA)
        write_meta_properties(disk, DATA, MetaProperties(CLUSTER_ID, self.id_of(name), self.directory_id(name)))
        bootstrap = encode_snapshot(
            formatted_records(),
            metadata_version=LATEST_METADATA_VERSION,
            epoch=0,
            timestamp=timestamp,
            last_contained_timestamp=0,
        )
        replace_file(disk, DATA, "bootstrap.checkpoint", b"".join(bootstrap))
        folder = f"{DATA}/__cluster_metadata-0"
        disk.make_directory(folder)
        if name in self.first_voters:
            batches = encode_snapshot(
                (),
                metadata_version=LATEST_METADATA_VERSION,
                epoch=0,
                timestamp=timestamp,
                last_contained_timestamp=0,
                voters=Voters(1, {(voter := self.voter(one)).id: voter for one in self.first_voters}),
            )
            replace_file(disk, folder, SnapshotId(0, 0).name, b"".join(batches))
        disk.sync_directory(DATA)
        device.kill()
