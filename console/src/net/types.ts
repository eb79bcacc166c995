/** The shapes of API.md, in its order. Everything in them that comes from a cluster is text to show, never markup. */

export interface Session {
  version: string;
  user: string | null;
  login: "none" | "required" | "done";
  mechanisms: string[];
  oidc: boolean;
  csrf: string;
  read_only: boolean;
  clusters: { name: string; bootstrap: string }[];
  features: Record<string, boolean>;
  masking: string[];
}

export interface Fault {
  code: string;
  message: string;
  hint: string | null;
}

export interface Content {
  format: "json" | "avro" | "protobuf" | "json-schema" | "text" | "hex";
  text: string;
  size_bytes: number;
  is_cut: boolean;
  is_masked: boolean;
  schema: { id: number } | null;
  error: string | null;
}

export interface KafkaRecord {
  topic: string;
  partition: number;
  offset: number;
  timestamp: number;
  timestamp_type: string;
  key: Content | null;
  value: Content | null;
  headers: { name: string; value: Content | null }[];
  size_bytes: number;
}

export type Place =
  | { kind: "earliest" }
  | { kind: "latest" }
  | { kind: "offset"; offset: number }
  | { kind: "time"; timestamp: number };

export type Target = Place | { kind: "shift"; by: number } | { kind: "ago"; ms: number };

export interface Filter {
  text: string | null;
  ignore_case: boolean;
  header: { name: string; value: string | null } | null;
  path: { path: string; equals: unknown } | null;
  expression: string | null;
}

export interface Search {
  topic: string;
  partitions: number[] | null;
  from: Place;
  to: Place | null;
  key: string | null;
  filter: Filter | null;
  order: "newest" | "oldest";
  limit: number;
  cursor: string | null;
  format: "auto" | "json" | "text" | "hex";
}

export interface Progress {
  scanned_records: number;
  scanned_bytes: number;
  matched_records: number;
  total_records: number;
  elapsed_ms: number;
  partitions: number[];
  is_done: boolean;
}

export interface TopicRow {
  name: string;
  is_internal: boolean;
  partition_count: number;
  replication_factor: number;
  size_bytes: number | null;
  record_count: number | null;
  in_per_s: number | null;
  in_bytes_per_s: number | null;
  worst_lag: { group: string; records: number; seconds: number | null } | null;
  changed_settings: Record<string, string> | null;
  under_replicated_count: number;
  offline_count: number;
}

export interface Topics {
  at: number;
  topics: TopicRow[];
}

export interface PartitionRow {
  partition: number;
  leader_id: number | null;
  replicas: number[];
  isr: number[];
  start_offset: number | null;
  end_offset: number | null;
  size_bytes: number | null;
}

export interface Topic extends TopicRow {
  topic_id: string | null;
  partitions: PartitionRow[];
  groups: { group: string; type: string; state: string; lag_records: number | null; lag_seconds: number | null }[];
}

export interface Setting {
  name: string;
  value: string | null;
  source: string;
  origin: string;
  is_changed: boolean;
  is_read_only: boolean;
  is_sensitive: boolean;
  default: string | null;
  documentation: string | null;
}

export interface GroupRow {
  group: string;
  type: string;
  state: string;
  member_count: number | null;
  topics: string[];
  lag_records: number | null;
  lag_seconds: number | null;
  coordinator_id: number | null;
}

export interface Groups {
  at: number;
  groups: GroupRow[];
}

export interface TopicPartition {
  topic: string;
  partition: number;
}

export interface Group extends GroupRow {
  assignor: string | null;
  epoch: number | null;
  members: {
    member_id: string;
    instance_id: string | null;
    client_id: string;
    host: string;
    rack: string | null;
    assignment: TopicPartition[];
  }[];
  partitions: {
    topic: string;
    partition: number;
    committed: number | null;
    end_offset: number | null;
    lag_records: number | null;
    lag_seconds: number | null;
    member_id: string | null;
  }[];
}

export interface OffsetChange {
  topic: string;
  partition: number;
  old: number | null;
  new: number | null;
  count: number | null;
  error: string | null;
}

export interface Input {
  format: "text" | "json" | "hex" | "base64" | "registry";
  text: string;
}

export interface Produced {
  records: { partition: number | null; offset: number | null; timestamp: number | null; error: string | null }[];
}

export interface DeadLetterTopics {
  topics: {
    topic: string;
    record_count: number;
    kind: string;
    last_at: number | null;
    reasons: { reason: string; count: number }[];
  }[];
}

export interface Letter {
  kind: string;
  topic: string | null;
  partition: number | null;
  offset: number | null;
  group: string | null;
  reason: string | null;
  error_class: string | null;
  stacktrace: string | null;
  delivery_count: number | null;
  failed_at: number | null;
  flow: string | null;
}

export interface Letters {
  letters: { record: KafkaRecord; letter: Letter }[];
  cursor: string | null;
}

export interface Job {
  id: string;
  kind: string;
  state: "running" | "done" | "failed" | "cancelled";
  title: string;
  done: number;
  total: number | null;
  unit: string;
  message: string | null;
  started_at: number;
  ended_at: number | null;
}

export interface Check {
  check: string;
  ok: boolean;
  summary: string | null;
  findings: { is_problem: boolean; what: string; todo: string | null }[];
}

export interface Overview {
  at: number;
  cluster_id: string | null;
  controller_id: number | null;
  broker_count: number;
  fenced_count: number;
  topic_count: number;
  partition_count: number;
  group_count: number;
  size_bytes: number | null;
  in_per_s: number | null;
  in_bytes_per_s: number | null;
  under_replicated_count: number;
  offline_count: number;
  checks: Check[];
}

export interface LogDir {
  path: string;
  total_bytes: number | null;
  usable_bytes: number | null;
  size_bytes: number;
  replica_count: number;
  error: string | null;
}

export interface Broker {
  id: number;
  host: string;
  port: number;
  rack: string | null;
  is_controller: boolean;
  is_fenced: boolean;
  leader_count: number;
  replica_count: number;
  size_bytes: number | null;
  log_dirs: LogDir[];
}

export interface QuorumReplica {
  id: number;
  log_end_offset: number;
  lag: number;
  last_fetch_at: number | null;
  last_caught_up_at: number | null;
}

export interface Brokers {
  brokers: Broker[];
  quorum: {
    leader_id: number;
    leader_epoch: number;
    high_watermark: number;
    voters: QuorumReplica[];
    observers: QuorumReplica[];
  } | null;
  features: { name: string; finalized: number | null; min_supported: number; max_supported: number }[];
}

export interface Reassignments {
  reassignments: {
    topic: string;
    partition: number;
    replicas: number[];
    adding: number[];
    removing: number[];
    done_bytes: number | null;
    total_bytes: number | null;
  }[];
}

export interface Moves {
  moves: { topic: string; partition: number; old: number[]; new: number[]; size_bytes: number | null }[];
  size_bytes: number | null;
}

export interface Subjects {
  subjects: { subject: string; version: number; id: number; type: string; version_count: number }[];
  compatibility: string | null;
}

export interface SchemaVersion {
  version: number;
  id: number;
  type: string;
  schema: string;
  references: { name: string; subject: string; version: number }[];
}

export interface Subject {
  subject: string;
  compatibility: string | null;
  versions: SchemaVersion[];
}

export interface Flow {
  name: string;
  target: string | null;
  state: string;
  rows_in: number | null;
  rows_out: number | null;
  rows_set_aside: number | null;
  rows_per_s: number | null;
  lag_records: number | null;
  lag_seconds: number | null;
  batch_ms: number | null;
  batch_id: number | null;
  last_batch_at: number | null;
  last_error: string | null;
  waits_for: string | null;
}

export interface FlowSource {
  source: string;
  rows: number;
  kept: number;
  dropped: number;
  letters: number;
  rules: { name: string; failed: number }[];
  unexpected: { name: string; count: number }[];
}

export interface Pipeline {
  name: string;
  file: string | null;
  state: string;
  pid: number | null;
  is_ours: boolean;
  last_error: string | null;
  flows: Flow[];
  sources: FlowSource[];
}

export interface Acl {
  principal: string;
  host: string;
  operation: string;
  permission: string;
  resource: string;
  name: string;
  pattern: string;
}

export interface Users {
  users: {
    user: string;
    mechanisms: { mechanism: string; iterations: number }[];
    acl_count: number;
    has_quota: boolean;
  }[];
}

export interface Access {
  principals: {
    principal: string;
    operations: { operation: string; permission: string; acl: Acl | null }[];
  }[];
}

export interface Explained {
  is_allowed: boolean;
  reason: string;
  acls: { acl: Acl; effect: string }[];
}

export interface Quotas {
  quotas: { entity: Record<string, string | null>; values: Record<string, number> }[];
}

export interface Audit {
  events: {
    at: number;
    principal: string | null;
    host: string | null;
    operation: string;
    resource: string | null;
    name: string | null;
    decision: string;
    detail: string | null;
    node: number | string | null;
  }[];
  source: string;
}

export interface SqlResult {
  columns: { name: string; type: string }[];
  rows: unknown[][];
  is_cut: boolean;
}

export interface Series {
  times: number[];
  series: Record<string, (number | null)[]>;
}

export interface Transactions {
  open: {
    transactional_id: string;
    producer_id: number;
    producer_epoch: number;
    state: string;
    started_at: number | null;
    timeout_ms: number;
    partitions: TopicPartition[];
    coordinator_id: number;
  }[];
  hanging?: {
    topic: string;
    partition: number;
    producer_id: number;
    producer_epoch: number;
    coordinator_epoch: number;
    start_offset: number;
    last_at: number | null;
  }[];
}

export interface Preview<T> {
  preview: T;
  confirm: string;
}
