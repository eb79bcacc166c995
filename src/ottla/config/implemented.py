"""Which settings have an effect in Ottla. A known setting that is not in this list is accepted with one warning. Edit
the list when a part of Ottla starts to use a setting.
"""

from __future__ import annotations

from typing import Final

_BROKER: Final = """
    broker.id node.id process.roles broker.rack
    controller.listener.names controller.quorum.voters controller.quorum.bootstrap.servers
    controller.quorum.election.timeout.ms controller.quorum.election.backoff.max.ms
    controller.quorum.fetch.timeout.ms controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms
    controller.quorum.fetch.max.bytes controller.quorum.fetch.snapshot.max.bytes
    controller.quorum.auto.join.enable
    initial.broker.registration.timeout.ms broker.heartbeat.interval.ms broker.session.timeout.ms
    auto.leader.rebalance.enable leader.imbalance.check.interval.seconds unclean.leader.election.interval.ms
    replica.lag.time.max.ms replica.socket.timeout.ms replica.selector.class
    replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes
    replica.fetch.wait.max.ms replica.fetch.backoff.ms request.timeout.ms
    listeners advertised.listeners listener.security.protocol.map inter.broker.listener.name
    security.inter.broker.protocol
    sasl.enabled.mechanisms sasl.jaas.config sasl.server.max.receive.size connections.max.reauth.ms
    sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwks.endpoint.refresh.ms
    sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
    sasl.oauthbearer.expected.issuer sasl.oauthbearer.expected.audience sasl.oauthbearer.clock.skew.seconds
    sasl.kerberos.service.name sasl.kerberos.principal.to.local.rules
    sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.scope sasl.oauthbearer.client.credentials.client.id
    sasl.oauthbearer.client.credentials.client.secret sasl.login.callback.handler.class
    sasl.oauthbearer.sub.claim.name sasl.oauthbearer.scope.claim.name sasl.server.callback.handler.class
    connection.failed.authentication.delay.ms config.providers principal.builder.class
    socket.request.max.bytes socket.listen.backlog.size
    max.connections max.connections.per.ip max.connections.per.ip.overrides connections.max.idle.ms
    metadata.log.dir metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.ms metadata.max.retention.bytes metadata.max.retention.ms
    log.dir log.dirs num.partitions default.replication.factor auto.create.topics.enable delete.topic.enable
    message.max.bytes max.decompressed.message.bytes fetch.max.bytes
    max.incremental.fetch.session.cache.slots max.request.partition.size.limit
    compression.type compression.gzip.level compression.lz4.level compression.zstd.level min.insync.replicas
    unclean.leader.election.enable
    log.segment.bytes log.roll.ms log.roll.hours log.roll.jitter.ms log.roll.jitter.hours
    log.retention.ms log.retention.minutes log.retention.hours log.retention.bytes log.retention.check.interval.ms
    log.cleanup.policy log.index.size.max.bytes log.index.interval.bytes log.segment.delete.delay.ms
    log.flush.interval.messages log.flush.interval.ms log.flush.scheduler.interval.ms
    log.flush.offset.checkpoint.interval.ms
    log.message.timestamp.type log.message.timestamp.before.max.ms log.message.timestamp.after.max.ms
    log.cleaner.enable log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.min.cleanable.ratio
    log.cleaner.threads log.cleaner.io.max.bytes.per.second log.cleaner.io.buffer.load.factor
    log.cleaner.delete.retention.ms log.cleaner.min.compaction.lag.ms log.cleaner.max.compaction.lag.ms
    producer.id.expiration.ms producer.id.expiration.check.interval.ms
    quota.window.num quota.window.size.seconds controller.quota.window.num controller.quota.window.size.seconds
    offsets.topic.num.partitions offsets.topic.replication.factor offsets.topic.segment.bytes
    offsets.topic.compression.codec offsets.load.buffer.size offsets.retention.minutes
    offsets.retention.check.interval.ms offset.metadata.max.bytes group.coordinator.rebalance.protocols
    group.min.session.timeout.ms group.max.session.timeout.ms group.initial.rebalance.delay.ms group.max.size
    group.consumer.session.timeout.ms group.consumer.min.session.timeout.ms group.consumer.max.session.timeout.ms
    group.consumer.heartbeat.interval.ms group.consumer.min.heartbeat.interval.ms
    group.consumer.max.heartbeat.interval.ms group.consumer.max.size group.consumer.assignors
    group.consumer.migration.policy group.consumer.assignment.interval.ms
    group.consumer.min.assignment.interval.ms group.consumer.max.assignment.interval.ms
    group.consumer.regex.refresh.interval.ms
    share.coordinator.state.topic.num.partitions share.coordinator.state.topic.replication.factor
    share.coordinator.state.topic.min.isr share.coordinator.state.topic.segment.bytes
    share.coordinator.state.topic.compression.codec share.coordinator.state.topic.prune.interval.ms
    share.coordinator.snapshot.update.records.per.snapshot share.coordinator.write.timeout.ms
    share.coordinator.cold.partition.snapshot.interval.ms
    group.share.session.timeout.ms group.share.min.session.timeout.ms group.share.max.session.timeout.ms
    group.share.heartbeat.interval.ms group.share.min.heartbeat.interval.ms group.share.max.heartbeat.interval.ms
    group.share.max.size group.share.assignors group.share.initialize.retry.interval.ms
    group.share.record.lock.duration.ms group.share.min.record.lock.duration.ms group.share.max.record.lock.duration.ms
    group.share.delivery.count.limit group.share.min.delivery.count.limit group.share.max.delivery.count.limit
    group.share.partition.max.record.locks group.share.min.partition.max.record.locks
    group.share.max.partition.max.record.locks group.share.max.share.sessions
    group.share.assignment.interval.ms group.share.min.assignment.interval.ms group.share.max.assignment.interval.ms
    errors.deadletterqueue.topic.name.prefix errors.deadletterqueue.auto.create.topics.enable
    group.streams.session.timeout.ms group.streams.min.session.timeout.ms group.streams.max.session.timeout.ms
    group.streams.heartbeat.interval.ms group.streams.min.heartbeat.interval.ms
    group.streams.max.heartbeat.interval.ms group.streams.max.size group.streams.num.standby.replicas
    group.streams.max.standby.replicas group.streams.initial.rebalance.delay.ms
    group.streams.assignment.interval.ms group.streams.min.assignment.interval.ms
    group.streams.max.assignment.interval.ms group.streams.topology.description.plugin.class
    group.streams.assignors group.streams.num.warmup.replicas group.streams.max.warmup.replicas
    group.streams.acceptable.recovery.lag group.streams.task.offset.interval.ms
    group.streams.min.task.offset.interval.ms group.streams.rack.aware.assignment.tags
    transaction.state.log.replication.factor transaction.state.log.min.isr
    transaction.state.log.num.partitions transaction.state.log.segment.bytes
    transaction.partition.verification.enable transactional.id.expiration.ms transaction.max.timeout.ms
    transaction.abort.timed.out.transaction.cleanup.interval.ms
    transaction.remove.expired.transaction.cleanup.interval.ms transaction.two.phase.commit.enable
    add.partitions.to.txn.retry.backoff.ms add.partitions.to.txn.retry.backoff.max.ms
    replication.quota.window.num replication.quota.window.size.seconds
    alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
    delegation.token.secret.key delegation.token.max.lifetime.ms delegation.token.expiry.time.ms
    delegation.token.expiry.check.interval.ms
    telemetry.max.bytes internal.metadata.log.segment.bytes
    authorizer.class.name early.start.listeners max.connection.creation.rate
    sasl.mechanism.inter.broker.protocol sasl.mechanism.controller.protocol
    ssl.client.auth ssl.principal.mapping.rules ssl.allow.dn.changes ssl.allow.san.changes ssl.protocol
    ssl.enabled.protocols ssl.cipher.suites ssl.endpoint.identification.algorithm
    ssl.keystore.type ssl.keystore.location ssl.keystore.password ssl.key.password ssl.keystore.key
    ssl.keystore.certificate.chain ssl.truststore.type ssl.truststore.location ssl.truststore.password
    ssl.truststore.certificates
"""

IMPLEMENTED: Final = frozenset(_BROKER.split())

# Settings that protect something. Ignoring them would leave it unprotected, so a node that sets one does not start.
REFUSED: Final = {
    "create.topic.policy.class.name": "",
    "alter.config.policy.class.name": "",
    "client.quota.callback.class": "",
    "remote.log.storage.system.enable": "false",
}
"""Setting -> the value that asks for nothing and is accepted."""

STANDARD_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
"""The one class that `authorizer.class.name` may name."""

AUTHORIZER_KEYS: Final = frozenset(["super.users", "allow.everyone.if.no.acl.found"])
"""Settings of the authorizer: they are in none of Kafka's lists of settings."""

# Names of Kafka 3 that Kafka 4 ignores. Files written for Kafka 3 still contain them.
_REMOVED: Final = """
    zookeeper.connect zookeeper.connection.timeout.ms zookeeper.session.timeout.ms zookeeper.set.acl
    zookeeper.max.in.flight.requests zookeeper.metadata.migration.enable broker.id.generation.enable
    reserved.broker.max.id inter.broker.protocol.version log.message.format.version
    log.message.downconversion.enable log.message.timestamp.difference.max.ms control.plane.listener.name
    controlled.shutdown.max.retries controlled.shutdown.retry.backoff.ms leader.imbalance.per.broker.percentage
    group.coordinator.new.enable offsets.commit.required.acks auto.include.jmx.reporter
    password.encoder.secret password.encoder.old.secret password.encoder.keyfactory.algorithm
    password.encoder.cipher.algorithm password.encoder.key.length password.encoder.iterations
    metadata.log.segment.min.bytes eligible.leader.replicas.enable
"""

REMOVED: Final = frozenset(_REMOVED.split())
