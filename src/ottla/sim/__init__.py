"""Whole-node simulation: the shipped node on a virtual clock, an in-memory network and a disk that lies.

    loop        asyncio's loop with a virtual clock; processes that can be killed without their help
    network     TCP in memory behind non-blocking sockets
    disk        what was not synced may be lost; crashes at a chosen write; full, failing and rotting devices
    machine     one disk and one program, for crashes at every write of an operation
    client      requests and answers, nothing clever
    programs    applications on hosts of their own that run Ottla's own clients, unchanged
    own_clients their workloads: idempotent producers, groups that commit, a transactional copy
    secured     users that log in; passwords and ACLs that change
    checkers    what must hold whatever happened
    cluster     hosts that run `broker.Node`; the vocabulary of scenarios
    workloads   programs that know what they were promised
    members     what members of groups send and make of answers (classic_member, consumer_member); without a network
    group_history  what groups promise: whose a partition is, and where its group stands
    shard_world    one group shard, members and a log: thousands of seeds in the time of one node
    group_workload members as programs on a whole node
    transaction_workload   the ring: tokens that transactions move; beside it its client, reader and history
    shape       which nodes are brokers, controllers or both; static and dynamic voters
    replicas    several nodes: a quorum, replicated partitions; the vocabulary of their scenarios
    witness     what no two nodes may believe, and what they must agree on at rest
    router      a client that finds leaders; cluster_client also finds coordinators, for workloads of one node
    replica_workloads, cluster_admin   writers and readers; topics, moves, elections and voters that change
    replica_disturbances  what goes wrong in a cluster
    replica_world  one seed, one cluster
    world       one seed, one world: what is drawn from it, what happens in it, the verdict

`python -m ottla.sim --seeds 200` tries fresh worlds of one node and of several, `--seed 7` replays one exactly;
`--only` chooses one kind of world: `node`, `cluster`, `replicas`, `replicas-ring` (transactions), `replicas-groups`,
`replicas-topics`, `replicas-moves` (reassignments, elections), `replicas-voters`,
`replicas-clients` (Ottla's own producer, consumer and transactional copy), `replicas-secured` (logins and ACLs).
"""
