"""What each setting means, in a sentence. Read only when a client asks DescribeConfigs for documentation.

One setting per line, `name: text`. A broker setting that is the default of a topic's has the topic's text.
"""

from __future__ import annotations

from typing import Final

from ottla.config.synonyms import TOPIC_SYNONYMS

_TOPIC: Final = """
segment.bytes: Size at which a log file is closed and a new one begun.
segment.ms: Age at which a log file is closed even if it is not full, so that retention and compaction can get at it.
segment.jitter.ms: Upper bound of a random time taken off segment.ms, so that not all partitions roll at once.
segment.index.bytes: Room for the offset index of one log file; the file rolls when it is used up.
flush.messages: Records after which the log is forced to disk; 1 makes every acknowledged produce durable.
flush.ms: Time after which records that are only in memory are forced to disk.
retention.bytes: Size of a partition above which its oldest log files are deleted; -1 for no limit.
retention.ms: Age of a log file's newest record at which the file is deleted; -1 keeps it for ever.
max.message.bytes: Largest record batch, after compression, that is accepted.
max.decompressed.message.bytes: Largest single record of a compressed batch, after decompression, that is accepted.
index.interval.bytes: Bytes of log between two entries of its index. Fewer make reads more exact and indexes larger.
delete.retention.ms: How long a deletion marker of a compacted topic stays readable after the key was cleaned.
min.compaction.lag.ms: Age before which a record is not compacted away.
max.compaction.lag.ms: Age after which a record is due for compaction however clean the log is.
file.delete.delay.ms: Time between taking a log file out of use and removing it from disk.
min.cleanable.dirty.ratio: Share of the log that must be uncleaned before it is compacted again.
cleanup.policy: What happens to old records: delete drops whole files by retention, compact keeps the last of each key.
unclean.leader.election.enable: Whether a replica that is not in sync may become leader, which can lose records.
min.insync.replicas: Replicas that must have a record of a producer with acks=all before it is acknowledged.
compression.type: Codec that records are kept in; producer keeps whatever the producer chose.
compression.gzip.level: Effort of gzip, where the broker compresses.
compression.lz4.level: Effort of lz4, where the broker compresses.
compression.zstd.level: Effort of zstd, where the broker compresses.
preallocate: Whether a new log file gets its full size on disk at once.
message.timestamp.type: Whether a record's time is the producer's (CreateTime) or that of the append (LogAppendTime).
message.timestamp.before.max.ms: How far a record's time may lie in the past, for topics that keep the producer's time.
message.timestamp.after.max.ms: How far a record's time may lie in the future, for topics that keep the producer's time.
leader.replication.throttled.replicas: Replicas whose leader limits what it sends, as partition:broker pairs, or *.
follower.replication.throttled.replicas: Replicas whose follower limits what it takes, as partition:broker pairs, or *.
remote.storage.enable: Whether closed log files are copied to remote storage.
local.retention.ms: Age at which files that are also remote leave the local disk; -2 means retention.ms.
local.retention.bytes: Size above which files that are also remote leave the local disk; -2 means retention.bytes.
remote.log.copy.disable: Whether nothing more is copied to remote storage, while what is there stays readable.
errors.deadletterqueue.group.enable: Whether groups may use the topic as their dead-letter queue.
remote.log.delete.on.disable: Whether remote files are deleted when remote storage is turned off for the topic.
internal.segment.bytes: Size of log files below the usual minimum. For tests.
confluent.key.schema.validation: Whether a record's key must name a schema that is registered for it.
confluent.value.schema.validation: Whether a record's value must name a schema that is registered for it.
confluent.key.subject.name.strategy: Class that says under which subject the schemas of keys are registered.
confluent.value.subject.name.strategy: Class that says under which subject the schemas of values are registered.
ottla.key.schema.validation: What is checked of keys: none, id (their schema) or full (that they decode, too).
ottla.value.schema.validation: What is checked of values: none, id (their schema) or full (that they decode, too).
"""

_OWN: Final = """
ottla.audit.log.enable: Whether audit events are logged. Default: true if there is an authorizer or a SASL listener.
ottla.audit.topic.enable: Whether audit events are also written to the topic __ottla_audit.
ottla.schema.registry.unavailable: Whether a record is refused or accepted if its schema cannot be looked up now.
confluent.schema.registry.url: Addresses of schema registries, with commas. Topics with schema validation need it.
confluent.basic.auth.credentials.source: URL or USER_INFO. Accepted, without effect: both places are read.
confluent.basic.auth.user.info: User and password at the registry, as user:password.
confluent.bearer.auth.token: Token with which the broker logs in at the registry.
confluent.ssl.truststore.location: PEM file of the registry's CA. Default: the system's certificates.
confluent.ssl.truststore.type: Format of the file in confluent.ssl.truststore.location.
confluent.schema.registry.max.cache.size: Schemas that the broker remembers.
confluent.missing.id.cache.ttl.sec: Seconds for which the broker remembers that a schema is not registered.
"""

_GROUP: Final = """
consumer.session.timeout.ms: Silence after which a consumer of the group counts as gone.
consumer.heartbeat.interval.ms: How often a consumer of the group sends a heartbeat.
consumer.assignment.interval.ms: Least time between two new assignments of the group.
share.session.timeout.ms: Silence after which a member of the share group counts as gone.
share.heartbeat.interval.ms: How often a member of the share group sends a heartbeat.
share.record.lock.duration.ms: How long a record handed to a member is kept from the others.
share.delivery.count.limit: How often a record is handed out before it is given up.
share.partition.max.record.locks: Records of one partition that can be handed out at a time.
share.auto.offset.reset: Where a new share group starts to read.
share.isolation.level: Whether the share group sees records of transactions that have not been committed.
share.renew.acknowledge.enable: Whether members may extend the time they hold a record.
share.assignment.interval.ms: Least time between two new assignments of the share group.
errors.deadletterqueue.topic.name: Topic for records of the share group that are rejected or delivered too often.
errors.deadletterqueue.copy.record.enable: Whether a dead letter has the record's key, value and headers.
ottla.errors.deadletterqueue.required.enable: Whether a record stays in flight until its dead letter is written.
ottla.errors.deadletterqueue.once.enable: As required.enable, and at most one letter for a record even if leaders die.
ottla.share.redelivery.backoff.ms: Pause before a record is delivered the second time; doubles each time. 0: no pause.
ottla.share.redelivery.backoff.max.ms: Longest pause before a record is delivered again.
streams.session.timeout.ms: Silence after which a member of the streams group counts as gone.
streams.heartbeat.interval.ms: How often a member of the streams group sends a heartbeat.
streams.num.standby.replicas: Copies of each task's state that other members keep ready.
streams.initial.rebalance.delay.ms: How long the first assignment waits for more members.
streams.assignment.interval.ms: Least time between two new assignments of the streams group.
streams.assignor.name: How tasks are assigned: sticky, or highly_available with warm-up tasks (auto is the same).
streams.num.warmup.replicas: Warm-up tasks of the streams group at a time; 0: tasks move without any.
streams.acceptable.recovery.lag: Records of a changelog that may be left to restore when a task moves.
streams.task.offset.interval.ms: How often members report how far they have restored their tasks.
streams.rack.aware.assignment.tags: Client tags in whose values the copies of a task should differ, by priority.
"""

_CLIENT_METRICS: Final = """
metrics: Prefixes of the client metrics to be sent; empty for none, * for all.
interval.ms: How often clients send the metrics.
match: Which clients are asked, as label=pattern pairs; empty for all.
"""

_BROKER: Final = """
remote.log.storage.system.enable: Whether the broker can use remote storage at all.
remote.log.storage.manager.impl.prefix: Prefix of the settings passed to the remote storage plug-in.
remote.log.metadata.manager.impl.prefix: Prefix of the settings passed to the plug-in for remote log metadata.
remote.log.storage.manager.class.name: Class of the remote storage plug-in.
remote.log.storage.manager.class.path: Where the classes of the remote storage plug-in are.
remote.log.metadata.manager.class.name: Class that keeps the metadata of remote log files.
remote.log.metadata.manager.class.path: Where the classes of the remote metadata plug-in are.
remote.log.metadata.manager.listener.name: Listener that the remote metadata plug-in connects to.
remote.log.metadata.custom.metadata.max.bytes: Most metadata of its own that a remote storage plug-in may add.
remote.log.index.file.cache.total.size.bytes: Disk space for indexes fetched from remote storage.
remote.log.index.file.cache.ttl.ms: How long an unused index fetched from remote storage is kept.
remote.log.manager.thread.pool.size: Threads that follow remote log files on followers.
remote.log.manager.copier.thread.pool.size: Threads that copy log files to remote storage.
remote.log.manager.expiration.thread.pool.size: Threads that remove expired remote files.
remote.log.manager.follower.thread.pool.size: Threads that keep followers informed of remote files.
remote.log.manager.task.interval.ms: How often copying and expiry look for work.
remote.log.manager.task.retry.backoff.ms: First pause after a failed remote storage task.
remote.log.manager.task.retry.backoff.max.ms: Longest pause after failed remote storage tasks.
remote.log.manager.task.retry.jitter: Random share of the pause after a failed remote storage task.
remote.log.reader.threads: Threads that read from remote storage.
remote.log.reader.max.pending.tasks: Remote reads that may wait for a thread.
remote.log.manager.copy.max.bytes.per.second: Limit of copying to remote storage.
remote.log.manager.copy.quota.window.num: Windows over which copying to remote storage is measured.
remote.log.manager.copy.quota.window.size.seconds: Length of a window over which remote copies are measured.
remote.log.manager.fetch.max.bytes.per.second: Limit of reading from remote storage.
remote.log.manager.fetch.quota.window.num: Windows over which reading from remote storage is measured.
remote.log.manager.fetch.quota.window.size.seconds: Length of a window over which remote reads are measured.
remote.fetch.max.wait.ms: How long a fetch waits for remote storage.
remote.list.offsets.request.timeout.ms: How long a search by time waits for remote storage.
broker.id: The node's number, under its old name.
num.io.threads: Threads that handle requests in Apache Kafka; Ottla uses one.
num.replica.alter.log.dirs.threads: Threads for moves of replicas from one log directory to another.
background.threads: Threads for background work.
request.timeout.ms: How long the broker waits for answers to its own requests.
socket.connection.setup.timeout.ms: How long the broker waits for a connection that it opens.
socket.connection.setup.timeout.max.ms: Longest wait for a connection that the broker opens, after repeated failures.
config.providers: Plug-ins that can stand in for values in the configuration.
authorizer.class.name: Class that decides which principal may do what; empty allows everything to all.
early.start.listeners: Listeners that open before the authorizer is ready.
broker.rack: The rack of the broker; replicas are spread over racks, consumers can prefer their own.
controlled.shutdown.enable: Whether a broker hands over its partitions before it stops.
delete.topic.enable: Whether topics can be deleted.
max.incremental.fetch.session.cache.slots: Fetch sessions that the broker remembers.
fetch.max.bytes: Most bytes in one fetch answer, whatever the client asks.
max.request.partition.size.limit: Most partitions in one answer of DescribeTopicPartitions.
unstable.api.versions.enable: Whether versions of APIs that are still being worked on are offered.
unstable.feature.versions.enable: Whether feature levels that are still being worked on are offered.
process.roles: What the process is: broker, controller or both.
node.id: The node's number, different for every node of the cluster.
initial.broker.registration.timeout.ms: How long a starting broker tries to register before it gives up.
broker.heartbeat.interval.ms: How often a broker reports to the controller.
broker.session.timeout.ms: Silence after which the controller fences a broker.
controller.listener.names: Listeners that belong to the controller.
sasl.mechanism.controller.protocol: How nodes authenticate to the controller.
controller.performance.sample.period.ms: How often the controller's speed is logged.
controller.performance.always.log.threshold.ms: Duration above which every controller event is logged.
server.max.startup.time.ms: How long a start may take.
metadata.log.max.record.bytes.between.snapshots: Metadata written after which a snapshot is taken.
metadata.log.max.snapshot.interval.ms: Longest time between snapshots while there is anything new; 0 for no limit.
metadata.log.dir: Where the metadata log lies; the first log directory if not set.
metadata.log.segment.bytes: Largest file of the metadata log.
metadata.log.segment.ms: Age at which a file of the metadata log is closed.
metadata.max.retention.bytes: Size of metadata log and snapshots above which old ones are deleted.
metadata.max.retention.ms: Age at which old files of the metadata log and old snapshots are deleted.
metadata.max.idle.interval.ms: How often an idle controller writes a record that says nothing; 0 for never.
internal.metadata.log.segment.bytes: Size of metadata log files below the usual minimum. For tests.
internal.metadata.max.batch.size.in.bytes: Largest batch of metadata records. For tests.
internal.metadata.delete.delay.millis: Time before old metadata files leave the disk. For tests.
listeners: Addresses that the node listens on, as NAME://host:port.
advertised.listeners: Addresses that clients connect to, if they differ from listeners.
listener.security.protocol.map: Which security protocol each listener name stands for.
socket.send.buffer.bytes: Send buffer of a connection; -1 leaves it to the system.
socket.receive.buffer.bytes: Receive buffer of a connection; -1 leaves it to the system.
socket.request.max.bytes: Largest request; a longer one closes its connection.
socket.listen.backlog.size: Connections that may wait to be accepted.
max.connections.per.ip: Connections one address may have.
max.connections.per.ip.overrides: Connections that particular addresses may have, as address:count pairs.
max.connections: Connections the broker accepts at a time.
max.connection.creation.rate: Connections the broker accepts per second.
connections.max.idle.ms: Silence after which a connection is closed.
connection.failed.authentication.delay.ms: How long the answer to a failed login is held back.
queued.max.requests: Requests that may wait before connections are no longer read.
queued.max.request.bytes: Bytes of requests that may wait; -1 for no limit.
num.network.threads: Threads that read and write connections in Apache Kafka; Ottla uses one.
controller.socket.timeout.ms: How long a request to a controller may take.
default.replication.factor: Replicas of a topic that is created without a number of them.
replica.lag.time.max.ms: How long a follower may be behind before it is no longer in sync.
replica.socket.timeout.ms: How long a follower's fetch may take.
replica.socket.receive.buffer.bytes: Receive buffer of a follower's connection.
replica.fetch.max.bytes: Bytes a follower asks for per partition.
replica.fetch.wait.max.ms: How long a follower's fetch may wait for data.
replica.fetch.backoff.ms: Pause of a follower after an error.
replica.fetch.min.bytes: Bytes a follower's fetch waits for.
replica.fetch.response.max.bytes: Bytes a follower asks for in one answer.
num.replica.fetchers: Connections with which a follower fetches from each leader.
replica.high.watermark.checkpoint.interval.ms: How often high watermarks are written to disk.
fetch.purgatory.purge.interval.requests: Answered fetches after which Apache Kafka tidies its list of waiting ones.
producer.purgatory.purge.interval.requests: Answered produces after which Apache Kafka tidies its list of waiting ones.
delete.records.purgatory.purge.interval.requests: Answered deletions after which Apache Kafka tidies its waiting ones.
auto.leader.rebalance.enable: Whether leadership goes back to preferred replicas by itself.
leader.imbalance.check.interval.seconds: How often that is looked at.
unclean.leader.election.interval.ms: How often partitions without leader are looked at for an unclean election.
security.inter.broker.protocol: Security protocol among brokers, when no listener is named for it.
inter.broker.listener.name: Listener that brokers use among themselves.
replica.selector.class: Class that chooses the replica a consumer reads from.
follower.fetch.last.tiered.offset.enable: Whether an empty follower starts behind what is already in remote storage.
group.coordinator.rebalance.protocols: Kinds of groups that are served.
group.coordinator.threads: Threads of the group coordinator.
group.coordinator.background.threads: Threads for the group coordinator's slow work.
group.coordinator.append.linger.ms: How long the group coordinator collects writes; -1 decides by load.
group.coordinator.cached.buffer.max.bytes: Largest write buffer that the group coordinator keeps for reuse.
offsets.commit.timeout.ms: How long a commit of offsets may take.
offsets.load.buffer.size: Bytes read at a time when offsets are loaded.
offsets.topic.replication.factor: Replicas of the topic that holds committed offsets.
offsets.topic.num.partitions: Partitions of the topic that holds committed offsets.
offsets.topic.segment.bytes: Log file size of the topic that holds committed offsets.
offsets.topic.compression.codec: Codec of the topic that holds committed offsets.
offset.metadata.max.bytes: Longest note that may be committed with an offset.
offsets.retention.minutes: How long offsets of a group without members are kept.
offsets.retention.check.interval.ms: How often expired offsets are looked for.
group.min.session.timeout.ms: Shortest session timeout a classic member may ask for.
group.max.session.timeout.ms: Longest session timeout a classic member may ask for.
group.initial.rebalance.delay.ms: How long a new classic group waits for more members.
group.max.size: Most members of a classic group.
group.consumer.min.session.timeout.ms: Smallest session timeout that a group may be set to.
group.consumer.max.session.timeout.ms: Largest session timeout that a group may be set to.
group.consumer.min.heartbeat.interval.ms: Smallest heartbeat interval that a group may be set to.
group.consumer.max.heartbeat.interval.ms: Largest heartbeat interval that a group may be set to.
group.consumer.max.size: Most members of a consumer group.
group.consumer.assignors: Ways of spreading partitions that consumers can choose from; the first is the default.
group.consumer.migration.policy: Whether a group may change between the classic and the new protocol while in use.
group.consumer.min.assignment.interval.ms: Smallest time between assignments that a group may be set to.
group.consumer.max.assignment.interval.ms: Largest time between assignments that a group may be set to.
group.consumer.regex.refresh.interval.ms: How often subscriptions by pattern are matched anew.
group.share.min.session.timeout.ms: Smallest session timeout that a share group may be set to.
group.share.max.session.timeout.ms: Largest session timeout that a share group may be set to.
group.share.min.heartbeat.interval.ms: Smallest heartbeat interval that a share group may be set to.
group.share.max.heartbeat.interval.ms: Largest heartbeat interval that a share group may be set to.
group.share.max.size: Most members of a share group.
group.share.assignors: How partitions are spread over a share group's members.
group.share.min.assignment.interval.ms: Smallest time between assignments that a share group may be set to.
group.share.max.assignment.interval.ms: Largest time between assignments that a share group may be set to.
group.share.initialize.retry.interval.ms: How often a failed start of a share partition is tried again.
group.streams.min.session.timeout.ms: Smallest session timeout that a streams group may be set to.
group.streams.max.session.timeout.ms: Largest session timeout that a streams group may be set to.
group.streams.min.heartbeat.interval.ms: Smallest heartbeat interval that a streams group may be set to.
group.streams.max.heartbeat.interval.ms: Largest heartbeat interval that a streams group may be set to.
group.streams.max.size: Most members of a streams group.
group.streams.max.standby.replicas: Most standby copies that a streams group may be set to.
group.streams.min.assignment.interval.ms: Smallest time between assignments that a streams group may be set to.
group.streams.max.assignment.interval.ms: Largest time between assignments that a streams group may be set to.
group.streams.assignors: How tasks are assigned to a streams group's members; the first is the default.
group.streams.max.warmup.replicas: Most warm-up tasks that a streams group may be set to.
group.streams.min.task.offset.interval.ms: Smallest interval of task offsets that a streams group may be set to.
group.streams.topology.description.plugin.class: Where descriptions of topologies are kept; not set: nowhere.
log.cleaner.threads: Threads that compact logs in Apache Kafka.
log.cleaner.io.max.bytes.per.second: Limit of what compaction reads and writes.
log.cleaner.dedupe.buffer.size: Memory for the keys of the logs being compacted.
log.cleaner.io.buffer.size: Memory for compaction's reading and writing.
log.cleaner.io.buffer.load.factor: How full the memory for keys may get.
log.cleaner.backoff.ms: Pause of compaction when there is nothing to do.
log.cleaner.enable: Whether logs are compacted at all.
num.partitions: Partitions of a topic that is created without a number of them.
log.dir: Where logs lie, when log.dirs is not set.
log.dirs: The directories that logs lie in.
cordoned.log.dirs: Log directories that get no new partitions; * for all.
log.roll.hours: Age at which a log file is closed, in hours, when log.roll.ms is not set.
log.roll.jitter.hours: Random time taken off the roll time, in hours, when log.roll.jitter.ms is not set.
log.retention.minutes: Age at which a log file is deleted, in minutes, when log.retention.ms is not set.
log.retention.hours: Age at which a log file is deleted, in hours, when neither minutes nor milliseconds are set.
log.retention.check.interval.ms: How often logs are looked at for files that are due for deletion.
log.flush.scheduler.interval.ms: How often logs are looked at for records that are due to be forced to disk.
log.flush.offset.checkpoint.interval.ms: How often the point up to which logs are on disk is written down.
log.flush.start.offset.checkpoint.interval.ms: How often the first offsets of logs are written down.
num.recovery.threads.per.data.dir: Threads per log directory that load logs at the start and close them at the end.
auto.create.topics.enable: Whether asking for a topic that does not exist creates it.
create.topic.policy.class.name: Class that may refuse new topics.
alter.config.policy.class.name: Class that may refuse changes of settings.
log.dir.failure.timeout.ms: How long a broker that cannot report a failed log directory goes on before it stops.
log.initial.task.delay.ms: How long after the start the periodic work on logs begins.
group.share.delivery.count.limit: How often a record is handed out before it is given up.
group.share.max.delivery.count.limit: Largest delivery count that a share group may be set to.
group.share.min.delivery.count.limit: Smallest delivery count that a share group may be set to.
group.share.min.record.lock.duration.ms: Shortest lock that a share group may be set to.
group.share.max.record.lock.duration.ms: Longest lock that a share group may be set to.
group.share.max.partition.max.record.locks: Largest number of locked records that a share group may be set to.
group.share.min.partition.max.record.locks: Smallest number of locked records that a share group may be set to.
share.fetch.purgatory.purge.interval.requests: Answered share fetches after which the list of waiting ones is tidied.
group.share.max.share.sessions: Share sessions that the broker remembers.
errors.deadletterqueue.topic.name.prefix: What the name of a dead-letter queue topic of a group has to begin with.
errors.deadletterqueue.auto.create.topics.enable: Whether a dead-letter queue topic is created when it is first needed.
group.share.persister.class.name: Class that keeps the state of share groups.
share.coordinator.state.topic.num.partitions: Partitions of the topic that holds the state of share groups.
share.coordinator.state.topic.replication.factor: Replicas of the topic that holds the state of share groups.
share.coordinator.state.topic.min.isr: In-sync replicas that a write of share group state needs.
share.coordinator.state.topic.segment.bytes: Log file size of the topic that holds the state of share groups.
share.coordinator.threads: Threads of the share coordinator.
share.coordinator.snapshot.update.records.per.snapshot: Updates after which a share partition's whole state is written.
share.coordinator.load.buffer.size: Bytes read at a time when share group state is loaded.
share.coordinator.state.topic.compression.codec: Codec of the topic that holds the state of share groups.
share.coordinator.append.linger.ms: How long the share coordinator collects writes; -1 decides by load.
share.coordinator.write.timeout.ms: How long a write of share group state may take.
share.coordinator.state.topic.prune.interval.ms: How often share group state that is no longer needed is deleted.
share.coordinator.cold.partition.snapshot.interval.ms: How often the state of quiet share partitions is written anew.
share.coordinator.cached.buffer.max.bytes: Largest write buffer that the share coordinator keeps for reuse.
transaction.state.log.min.isr: In-sync replicas that a write of transaction state needs.
transaction.state.log.load.buffer.size: Bytes read at a time when transaction state is loaded.
transaction.state.log.replication.factor: Replicas of the topic that holds the state of transactions.
transaction.state.log.num.partitions: Partitions of the topic that holds the state of transactions.
transaction.state.log.segment.bytes: Log file size of the topic that holds the state of transactions.
transaction.partition.verification.enable: Whether writes check that their partition is in the transaction.
producer.id.expiration.ms: How long an idempotent producer that is silent is remembered.
producer.id.expiration.check.interval.ms: How often silent producers are looked for.
transactional.id.expiration.ms: How long an unused transactional id is remembered.
transaction.max.timeout.ms: Longest timeout that a transactional producer may ask for.
transaction.abort.timed.out.transaction.cleanup.interval.ms: How often transactions that took too long are aborted.
transaction.remove.expired.transaction.cleanup.interval.ms: How often expired transactional ids are removed.
transaction.two.phase.commit.enable: Whether a transaction may wait for an outside coordinator without a timeout.
controller.quorum.voters: The controllers of a static quorum, as id@host:port.
controller.quorum.bootstrap.servers: Controllers to ask for the quorum's members, as host:port.
controller.quorum.election.timeout.ms: Silence of candidates after which a voter starts another election.
controller.quorum.fetch.timeout.ms: How long a follower waits for its leader before it becomes a candidate.
controller.quorum.election.backoff.max.ms: Longest pause between two candidacies.
controller.quorum.append.linger.ms: How long the leader collects metadata records before it writes them.
controller.quorum.request.timeout.ms: How long a request in the quorum may take.
controller.quorum.retry.backoff.ms: Pause before a failed request in the quorum is sent again.
controller.quorum.auto.join.enable: Whether a controller joins the voters by itself.
controller.quorum.fetch.snapshot.max.bytes: Bytes of a snapshot fetched at a time.
controller.quorum.fetch.max.bytes: Bytes of the metadata log fetched at a time.
metrics.num.samples: Samples that a measured rate is made of.
metrics.sample.window.ms: Length of a sample of which measured rates are made.
metric.reporters: Plug-ins that report metrics.
metrics.recording.level: How many details are measured.
kafka.metrics.reporters: Plug-ins that report metrics of the older kind.
kafka.metrics.polling.interval.secs: How often the plug-ins of kafka.metrics.reporters read the metrics.
telemetry.max.bytes: Largest push of metrics that is taken from a client.
quota.window.num: Windows over which the rate of a client is measured for its quota.
replication.quota.window.num: Windows over which replication is measured for its limit.
alter.log.dirs.replication.quota.window.num: Windows over which moves between log directories are measured.
controller.quota.window.num: Number of windows whose quota of changes to the cluster a client may use at once.
quota.window.size.seconds: Length of a window for the rate of clients.
replication.quota.window.size.seconds: Length of a window for the rate of replication.
alter.log.dirs.replication.quota.window.size.seconds: Length of a window for moves between log directories.
controller.quota.window.size.seconds: Length of a window for changes to the cluster.
client.quota.callback.class: Class that decides quotas instead of the stored ones.
connections.max.reauth.ms: How long a login holds before the client must renew it; 0 for ever.
sasl.server.max.receive.size: Longest message of a login.
security.providers: Java security providers to add.
principal.builder.class: Class that makes a principal of what a client proved to be.
ssl.client.auth: Whether clients must show a certificate.
ssl.principal.mapping.rules: Rules that make a user name of a certificate's subject.
ssl.allow.dn.changes: Whether a new certificate may have another subject.
ssl.allow.san.changes: Whether a new certificate may have other host names.
ssl.protocol: TLS version to use.
ssl.provider: Java security provider for TLS.
ssl.enabled.protocols: TLS versions that are accepted.
ssl.keystore.type: Format of the key store.
ssl.keystore.location: File with the node's key and certificates.
ssl.keystore.password: Password of the key store.
ssl.key.password: Password of the private key.
ssl.keystore.key: The private key itself, as PEM.
ssl.keystore.certificate.chain: The certificates themselves, as PEM.
ssl.truststore.type: Format of the trust store.
ssl.truststore.location: File with the certificates that are trusted.
ssl.truststore.password: Password of the trust store.
ssl.truststore.certificates: The trusted certificates themselves, as PEM.
ssl.keymanager.algorithm: Java's algorithm for managing keys.
ssl.trustmanager.algorithm: Java's algorithm for deciding trust.
ssl.endpoint.identification.algorithm: How a certificate is matched with the host's name; empty for not at all.
ssl.secure.random.implementation: Java's source of random numbers for TLS.
ssl.cipher.suites: Ciphers that may be used; empty for the usual ones.
ssl.engine.factory.class: Class that makes TLS engines.
sasl.mechanism.inter.broker.protocol: How brokers log in to each other.
sasl.enabled.mechanisms: Ways to log in that are offered.
sasl.server.callback.handler.class: Class that checks logins.
sasl.kerberos.principal.to.local.rules: Rules that make a user name of a Kerberos principal.
sasl.jaas.config: Login modules and their secrets.
sasl.client.callback.handler.class: Class that supplies the broker's own credentials.
sasl.login.class: Class that performs the broker's own login.
sasl.login.callback.handler.class: Class that the broker's own login asks for credentials.
sasl.kerberos.service.name: Name of the Kerberos service.
sasl.kerberos.kinit.cmd: Path of kinit.
sasl.kerberos.ticket.renew.window.factor: Share of a ticket's life after which it is renewed.
sasl.kerberos.ticket.renew.jitter: Random share that is added to the time of a Kerberos ticket's renewal.
sasl.kerberos.min.time.before.relogin: Least time between two Kerberos logins.
sasl.login.refresh.window.factor: Share of a credential's life after which it is renewed.
sasl.login.refresh.window.jitter: Random share that is added to the time of a credential's renewal.
sasl.login.refresh.min.period.seconds: Least time between two renewals of a credential.
sasl.login.refresh.buffer.seconds: Time before a credential's end by which it should be renewed.
sasl.login.connect.timeout.ms: How long a connection to the identity provider may take.
sasl.login.read.timeout.ms: How long an answer of the identity provider may take.
sasl.login.retry.backoff.max.ms: Longest pause between attempts at the identity provider.
sasl.login.retry.backoff.ms: First pause between attempts at the identity provider.
sasl.oauthbearer.jwt.retriever.class: Class that gets tokens.
sasl.oauthbearer.jwt.validator.class: Class that checks tokens.
sasl.oauthbearer.scope: Scope to ask for in a token.
sasl.oauthbearer.client.credentials.client.id: Client id for getting a token.
sasl.oauthbearer.client.credentials.client.secret: Secret for getting a token.
sasl.oauthbearer.assertion.algorithm: How an assertion is signed.
sasl.oauthbearer.assertion.claim.aud: Audience in an assertion.
sasl.oauthbearer.assertion.claim.exp.seconds: How long an assertion is valid.
sasl.oauthbearer.assertion.claim.iss: Issuer in an assertion.
sasl.oauthbearer.assertion.claim.jti.include: Whether an assertion has a unique id.
sasl.oauthbearer.assertion.claim.nbf.seconds: How long before now an assertion is valid.
sasl.oauthbearer.assertion.claim.sub: Subject in an assertion.
sasl.oauthbearer.assertion.file: File with a ready assertion.
sasl.oauthbearer.assertion.private.key.file: File with the key that signs assertions.
sasl.oauthbearer.assertion.private.key.passphrase: Passphrase of the key that signs assertions.
sasl.oauthbearer.assertion.template.file: File with further claims of an assertion.
sasl.oauthbearer.scope.claim.name: Claim that holds the scope.
sasl.oauthbearer.sub.claim.name: Claim that holds the user.
sasl.oauthbearer.token.endpoint.url: Address of the identity provider that issues tokens.
sasl.oauthbearer.jwks.endpoint.url: Address of the keys with which tokens are checked.
sasl.oauthbearer.jwks.endpoint.refresh.ms: How often the keys that check tokens are read again.
sasl.oauthbearer.jwks.endpoint.retry.backoff.ms: First pause after the keys that check tokens could not be read.
sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms: Longest pause after the keys that check tokens could not be read.
sasl.oauthbearer.clock.skew.seconds: How far the clocks of issuer and broker may differ.
sasl.oauthbearer.expected.audience: Audiences of which a token must have one.
sasl.oauthbearer.expected.issuer: Issuer that a token must have.
delegation.token.secret.key: Secret that delegation tokens are made with.
delegation.token.max.lifetime.ms: Age after which a delegation token cannot be renewed.
delegation.token.expiry.time.ms: How long a delegation token is valid unless renewed.
delegation.token.expiry.check.interval.ms: How often expired delegation tokens are removed.
add.partitions.to.txn.retry.backoff.max.ms: Longest pause before a partition is added to a transaction again.
add.partitions.to.txn.retry.backoff.ms: Pause before a partition is added to a transaction again.
leader.replication.throttled.rate: Bytes per second that a leader sends to throttled replicas.
follower.replication.throttled.rate: Bytes per second that a follower takes in for throttled replicas.
replica.alter.log.dirs.io.max.bytes.per.second: Bytes per second for moves between log directories.
"""


def _read(text: str) -> dict[str, str]:
    lines = (line.partition(": ") for line in text.strip().splitlines())
    return {name: doc for name, _, doc in lines}


def _build() -> dict[str, str]:
    topic, group = _read(_TOPIC), _read(_GROUP)
    docs = {f"group.{name}": text.replace("of the group", "of a group") for name, text in group.items()}
    for name, synonyms in TOPIC_SYNONYMS.items():
        docs[synonyms[0]] = topic[name]
    return {**docs, **_read(_BROKER), **_read(_OWN), **group, **_read(_CLIENT_METRICS), **topic}


DOCS: Final[dict[str, str]] = _build()
