import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.regex.Pattern;
import java.util.stream.Collectors;

import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

/**
 * Java's consumers in groups, and its admin client's view of them: every method called check... runs by itself and prints
 * one line, "ok NAME" or "failed NAME: why". Checks run side by side; each has topics and groups of its own.
 * Arguments: the server, how many checks run at once, and a regular expression of names (by default check.*).
 */
public class JavaGroups {
    static String bootstrap;
    static Admin admin;
    static final AtomicInteger numbers = new AtomicInteger();
    static final long PATIENCE_SECONDS = 120;
    static final String MORTAL_SESSION_MS = "8000";

    // ---- the small vocabulary of the checks

    static void same(Object expected, Object actual) {
        if (!Objects.equals(expected, actual)) {
            throw new AssertionError("expected " + expected + " but got " + actual);
        }
    }

    static void truth(boolean claim, String what) {
        if (!claim) {
            throw new AssertionError(what);
        }
    }

    interface Action {
        Object run() throws Exception;
    }

    static void refused(Class<? extends Throwable> by, Action action) throws Exception {
        try {
            action.run();
        } catch (ExecutionException failure) {
            truth(by.isInstance(failure.getCause()), "expected " + by.getSimpleName() + " but got " + failure.getCause());
            return;
        } catch (KafkaException failure) {
            truth(by.isInstance(failure) || by.isInstance(failure.getCause()), "expected " + by.getSimpleName() + " but got " + failure);
            return;
        }
        throw new AssertionError("expected " + by.getSimpleName() + " but it succeeded");
    }

    interface Claim {
        boolean holds() throws Exception;
    }

    interface Words {
        String say() throws Exception;
    }

    static void eventually(Claim claim, Words what) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        while (!claim.holds()) {
            truth(System.nanoTime() < end, what.say());
            Thread.sleep(20);
        }
    }

    static void eventually(Claim claim, String what) throws Exception {
        eventually(claim, () -> what);
    }

    static String name(String of) {
        return of + "-" + ProcessHandle.current().pid() + "-" + numbers.incrementAndGet();
    }

    static String topic(int partitions) throws Exception {
        return topicNamed(name("java-groups"), partitions);
    }

    static String topicNamed(String name, int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1))).all().get();
        eventually(() -> admin.listTopics().names().get().contains(name), "the new topic is listed");
        return name;
    }

    static Properties properties(String... pairs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (int index = 0; index < pairs.length; index += 2) {
            properties.put(pairs[index], pairs[index + 1]);
        }
        return properties;
    }

    static KafkaConsumer<byte[], byte[]> consumer(String group, String... pairs) {
        Properties properties = properties(pairs);
        properties.put("group.id", group);
        properties.putIfAbsent("auto.offset.reset", "earliest");
        properties.putIfAbsent("enable.auto.commit", "false");
        properties.putIfAbsent("metadata.max.age.ms", "1000");
        if (!"consumer".equals(properties.get("group.protocol"))) {
            properties.putIfAbsent("session.timeout.ms", "30000");
            properties.putIfAbsent("heartbeat.interval.ms", "200");
        }
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static void write(String topic, int partitions, int each) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(properties(), new ByteArraySerializer(), new ByteArraySerializer())) {
            for (int number = 0; number < each; number++) {
                for (int partition = 0; partition < partitions; partition++) {
                    producer.send(new ProducerRecord<>(topic, partition, null, ("value " + number).getBytes()));
                }
            }
        }
    }

    /** A session this short makes a dead member's partitions move soon. */
    static void shortSession(String group) throws Exception {
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(new AlterConfigOp(new ConfigEntry("consumer.session.timeout.ms", MORTAL_SESSION_MS), AlterConfigOp.OpType.SET)))).all().get();
    }

    /** What a crew read: how often each offset of each partition. */
    static class Seen {
        final Map<TopicPartition, Map<Long, Integer>> counts = new ConcurrentHashMap<>();

        void add(ConsumerRecord<byte[], byte[]> record) {
            counts.computeIfAbsent(new TopicPartition(record.topic(), record.partition()), unused -> new ConcurrentHashMap<>()).merge(record.offset(), 1, Integer::sum);
        }

        int total() {
            return counts.values().stream().mapToInt(Map::size).sum();
        }

        void eachOnce(String topic, int partitions, int each) throws Exception {
            eventually(() -> total() >= partitions * each, () -> "read " + total() + " of " + partitions * each);
            for (int partition = 0; partition < partitions; partition++) {
                Map<Long, Integer> offsets = new TreeMap<>(counts.getOrDefault(new TopicPartition(topic, partition), Map.of()));
                same((long) each, offsets.keySet().stream().filter(offset -> offset < each).count());
                truth(offsets.values().stream().allMatch(count -> count == 1), "partition " + partition + " was read twice: " + offsets.entrySet().stream().filter(entry -> entry.getValue() > 1).limit(5).toList());
            }
        }
    }

    /** One consumer on a thread of its own: it polls and commits what it got before it polls again. */
    static class Worker implements ConsumerRebalanceListener {
        final KafkaConsumer<byte[], byte[]> consumer;
        final Seen seen;
        final Thread thread;
        final AtomicInteger rebalances = new AtomicInteger();
        final Set<TopicPartition> revoked = ConcurrentHashMap.newKeySet();
        final Set<TopicPartition> lost = ConcurrentHashMap.newKeySet();
        volatile Set<TopicPartition> assigned = Set.of();
        volatile Throwable failure;
        volatile boolean stopping;
        volatile CloseOptions.GroupMembershipOperation ending = CloseOptions.GroupMembershipOperation.DEFAULT;

        Worker(Seen seen, KafkaConsumer<byte[], byte[]> consumer) {
            this.seen = seen;
            this.consumer = consumer;
            this.thread = new Thread(this::work);
        }

        Worker on(String... topics) {
            consumer.subscribe(List.of(topics), this);
            thread.start();
            return this;
        }

        Worker on(SubscriptionPattern pattern) {
            consumer.subscribe(pattern, this);
            thread.start();
            return this;
        }

        Worker on(Pattern pattern) {
            consumer.subscribe(pattern, this);
            thread.start();
            return this;
        }

        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            rebalances.incrementAndGet();
        }

        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            revoked.addAll(partitions);
        }

        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            lost.addAll(partitions);
        }

        void work() {
            try {
                while (!stopping) {
                    ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(50));
                    assigned = Set.copyOf(consumer.assignment());
                    records.forEach(seen::add);
                    if (!records.isEmpty()) {
                        consumer.commitSync();
                    }
                }
            } catch (Throwable thrown) {
                failure = thrown;
            }
            try {
                consumer.close(CloseOptions.timeout(Duration.ofSeconds(10)).withGroupMembershipOperation(ending));
            } catch (Throwable thrown) {
                failure = failure == null ? thrown : failure;
            }
            assigned = Set.of();
        }

        void end(CloseOptions.GroupMembershipOperation how) throws Exception {
            ending = how;
            stopping = true;
            thread.join(120_000);
            truth(!thread.isAlive(), "the consumer does not end");
        }

        void leave() throws Exception {
            end(CloseOptions.GroupMembershipOperation.LEAVE_GROUP);
        }

        /** Go without a word, as a process that is killed. */
        void die() throws Exception {
            end(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP);
        }
    }

    /** All workers of one group. */
    static class Crew implements AutoCloseable {
        final String group;
        final Seen seen = new Seen();
        final List<Worker> workers = new ArrayList<>();

        Crew(String group) {
            this.group = group;
        }

        Worker worker(String... pairs) {
            Worker worker = new Worker(seen, consumer(group, pairs));
            workers.add(worker);
            return worker;
        }

        List<Integer> shares() {
            return workers.stream().filter(worker -> worker.thread.isAlive()).map(worker -> worker.assigned.size()).sorted().toList();
        }

        /** Each partition has one owner and the members' shares are these. */
        void sharesAre(Integer... expected) throws Exception {
            List<Integer> wanted = Arrays.stream(expected).sorted().toList();
            int total = wanted.stream().mapToInt(share -> share).sum();
            eventually(() -> {
                for (Worker worker : workers) {
                    if (worker.failure != null) {
                        throw new AssertionError("a consumer failed", worker.failure);
                    }
                }
                Set<TopicPartition> owned = new HashSet<>();
                workers.forEach(worker -> owned.addAll(worker.assigned));
                return shares().equals(wanted) && owned.size() == total;
            }, () -> "shares are " + workers.stream().map(worker -> worker.assigned.toString()).toList() + " not " + wanted);
        }

        public void close() throws Exception {
            for (Worker worker : workers) {
                worker.stopping = true;
            }
            for (Worker worker : workers) {
                worker.thread.join(120_000);
            }
        }
    }

    // ---- sharing

    static void share(boolean isSticky, boolean isCooperative, String... settings) throws Exception {
        String topic = topic(6);
        String group = name("sharing");
        shortSession(group);
        try (Crew crew = new Crew(group)) {
            Worker first = crew.worker(settings).on(topic);
            crew.sharesAre(6);
            Worker second = crew.worker(settings).on(topic);
            crew.sharesAre(3, 3);
            boolean isClassic = !List.of(settings).contains("consumer");
            Worker third = crew.worker(isClassic ? with(settings, "session.timeout.ms", MORTAL_SESSION_MS) : settings).on(topic);
            crew.sharesAre(2, 2, 2);
            write(topic, 6, 50);
            crew.seen.eachOnce(topic, 6, 50);
            Set<TopicPartition> secondHad = second.assigned;
            Set<TopicPartition> thirdHad = third.assigned;
            second.revoked.clear();
            third.revoked.clear();
            first.leave();
            crew.sharesAre(3, 3);
            if (isSticky) {
                truth(second.assigned.containsAll(secondHad) && third.assigned.containsAll(thirdHad), "what they had: " + secondHad + thirdHad + ", now: " + second.assigned + third.assigned);
            }
            if (isCooperative) {
                same(Set.of(), new HashSet<>(second.revoked));
                same(Set.of(), new HashSet<>(third.revoked));
            }
            write(topic, 6, 50);
            crew.seen.eachOnce(topic, 6, 100);
            third.die();
            crew.sharesAre(6);
            write(topic, 6, 50);
            crew.seen.eachOnce(topic, 6, 150);
            same(Set.of(), new HashSet<>(second.lost));
        }
        Map<TopicPartition, OffsetAndMetadata> committed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get();
        same(6, committed.size());
        truth(committed.values().stream().allMatch(offset -> offset.offset() == 150), committed.toString());
    }

    static void checkRangeAssignorShares() throws Exception {
        share(false, false, "partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
    }

    static void checkRoundRobinAssignorShares() throws Exception {
        share(false, false, "partition.assignment.strategy", "org.apache.kafka.clients.consumer.RoundRobinAssignor");
    }

    static void checkStickyAssignorShares() throws Exception {
        share(true, false, "partition.assignment.strategy", "org.apache.kafka.clients.consumer.StickyAssignor");
    }

    static void checkCooperativeStickyAssignorShares() throws Exception {
        share(true, true, "partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
    }

    static void checkConsumerProtocolSharesUniformly() throws Exception {
        share(true, true, "group.protocol", "consumer");
    }

    static void checkConsumerProtocolSharesByRange() throws Exception {
        share(false, false, "group.protocol", "consumer", "group.remote.assignor", "range");
    }

    static void idle(String... settings) throws Exception {
        String topic = topic(2);
        String group = name("idle");
        shortSession(group);
        try (Crew crew = new Crew(group)) {
            for (int number = 0; number < 3; number++) {
                crew.worker(settings).on(topic);
            }
            crew.sharesAre(0, 1, 1);
            write(topic, 2, 20);
            crew.seen.eachOnce(topic, 2, 20);
            crew.workers.stream().filter(worker -> !worker.assigned.isEmpty()).findFirst().get().leave();
            crew.sharesAre(1, 1);
            write(topic, 2, 20);
            crew.seen.eachOnce(topic, 2, 40);
        }
    }

    static void checkAClassicMemberBeyondThePartitionsIsIdleUntilItIsNeeded() throws Exception {
        idle();
    }

    static void checkAConsumerBeyondThePartitionsIsIdleUntilItIsNeeded() throws Exception {
        idle("group.protocol", "consumer");
    }

    static void checkGroupsReadTheSameTopicIndependently() throws Exception {
        String topic = topic(3);
        write(topic, 3, 30);
        try (Crew one = new Crew(name("one")); Crew two = new Crew(name("two"))) {
            one.worker().on(topic);
            two.worker("group.protocol", "consumer").on(topic);
            one.seen.eachOnce(topic, 3, 30);
            two.seen.eachOnce(topic, 3, 30);
        }
    }

    static void differ(String... settings) throws Exception {
        String shared = topic(4);
        String only = topic(2);
        try (Crew crew = new Crew(name("differ"))) {
            Worker both = crew.worker(settings).on(shared, only);
            Worker one = crew.worker(settings).on(shared);
            eventually(() -> both.assigned.size() + one.assigned.size() == 6 && !one.assigned.isEmpty(), () -> both.assigned + " and " + one.assigned);
            truth(one.assigned.stream().allMatch(partition -> partition.topic().equals(shared)), one.assigned.toString());
            same(2L, both.assigned.stream().filter(partition -> partition.topic().equals(only)).count());
        }
    }

    static void checkClassicMembersMaySubscribeToDifferentTopics() throws Exception {
        differ();
    }

    static void checkConsumersMaySubscribeToDifferentTopics() throws Exception {
        differ("group.protocol", "consumer");
    }

    static void grow(String... settings) throws Exception {
        String topic = topic(2);
        try (Crew crew = new Crew(name("grow"))) {
            crew.worker(settings).on(topic);
            crew.worker(settings).on(topic);
            crew.sharesAre(1, 1);
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get();
            crew.sharesAre(2, 2);
            write(topic, 4, 10);
            crew.seen.eachOnce(topic, 4, 10);
        }
    }

    static void checkNewPartitionsReachClassicMembers() throws Exception {
        grow();
    }

    static void checkNewPartitionsReachConsumers() throws Exception {
        grow("group.protocol", "consumer");
    }

    // ---- patterns

    static void checkAPatternFindsTopicsThatAreMadeLater() throws Exception {
        String prefix = name("pattern-classic");
        topicNamed(prefix + "-a", 2);
        try (Crew crew = new Crew(name("pattern"))) {
            crew.worker().on(Pattern.compile(prefix + "-.*"));
            crew.sharesAre(2);
            topicNamed(prefix + "-b", 3);
            crew.sharesAre(5);
        }
    }

    static void checkABrokerSidePatternSubscribes() throws Exception {
        String prefix = name("pattern-consumer");
        topicNamed(prefix + "-a", 2);
        topicNamed(prefix + "-b", 4);
        topicNamed(prefix + "-d", 4);
        try (Crew crew = new Crew(name("pattern"))) {
            crew.worker("group.protocol", "consumer").on(new SubscriptionPattern(prefix + "-[abc]"));
            crew.sharesAre(6);
            write(prefix + "-b", 4, 10);
            crew.seen.eachOnce(prefix + "-b", 4, 10);
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(name("pattern"), "group.protocol", "consumer")) {
            consumer.subscribe(new SubscriptionPattern("(unclosed"));
            refused(InvalidRegularExpression.class, () -> {
                for (int attempt = 0; attempt < 1_200; attempt++) {
                    consumer.poll(Duration.ofMillis(100));
                }
                return null;
            });
        }
    }

    /** Kafka looks at the expressions of a group again after ten seconds at the earliest. */
    static void slowCheckABrokerSidePatternFindsTopicsThatAreMadeAndForgetsTopicsThatAreDeleted() throws Exception {
        String prefix = name("pattern-later");
        topicNamed(prefix + "-a", 2);
        try (Crew crew = new Crew(name("pattern"))) {
            crew.worker("group.protocol", "consumer").on(new SubscriptionPattern(prefix + "-[abc]"));
            crew.sharesAre(2);
            crew.worker("group.protocol", "consumer").on(new SubscriptionPattern(prefix + "-.*"));
            crew.sharesAre(1, 1);
            topicNamed(prefix + "-b", 4);
            crew.sharesAre(3, 3);
            admin.deleteTopics(List.of(prefix + "-a")).all().get();
            crew.sharesAre(2, 2);
        }
    }

    // ---- static members

    static void staticRestart(String... settings) throws Exception {
        String topic = topic(6);
        String group = name("static");
        String[] one = with(settings, "group.instance.id", "one");
        String[] two = with(settings, "group.instance.id", "two");
        boolean isClassic = !List.of(settings).contains("consumer");
        try (Crew crew = new Crew(group)) {
            Worker first = crew.worker(one).on(topic);
            Worker second = crew.worker(two).on(topic);
            crew.sharesAre(3, 3);
            write(topic, 6, 20);
            crew.seen.eachOnce(topic, 6, 20);
            Set<TopicPartition> had = second.assigned;
            Set<TopicPartition> firstHad = first.assigned;
            int rebalances = first.rebalances.get();
            second.end(CloseOptions.GroupMembershipOperation.DEFAULT);
            Worker back = crew.worker(two).on(topic);
            crew.sharesAre(3, 3);
            same(had, back.assigned);
            same(firstHad, first.assigned);
            write(topic, 6, 20);
            crew.seen.eachOnce(topic, 6, 40);
            same(rebalances, first.rebalances.get());
            ConsumerGroupDescription described = admin.describeConsumerGroups(List.of(group)).all().get().get(group);
            same(Set.of("one", "two"), described.members().stream().map(member -> member.groupInstanceId().get()).collect(Collectors.toSet()));
            if (isClassic) {
                Worker usurper = crew.worker(two).on(topic);
                eventually(() -> back.failure != null, "the older of two with one instance id goes on");
                truth(back.failure instanceof FencedInstanceIdException, "" + back.failure);
                back.failure = null;
                crew.sharesAre(3, 3);
                same(had, usurper.assigned);
                usurper.end(CloseOptions.GroupMembershipOperation.DEFAULT);
            } else {
                Worker usurper = crew.worker(two).on(topic);
                eventually(() -> usurper.failure != null, "the younger of two with one instance id is let in");
                truth(usurper.failure instanceof UnreleasedInstanceIdException, "" + usurper.failure);
                usurper.failure = null;
                back.end(CloseOptions.GroupMembershipOperation.DEFAULT);
            }
            admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("two")))).all().get();
            crew.sharesAre(6);
        }
    }

    static String[] with(String[] settings, String... more) {
        List<String> all = new ArrayList<>(List.of(settings));
        all.addAll(List.of(more));
        return all.toArray(String[]::new);
    }

    static void checkAStaticClassicMemberRestartsWithoutARebalance() throws Exception {
        staticRestart();
    }

    static void checkAStaticConsumerRestartsWithoutARebalance() throws Exception {
        staticRestart("group.protocol", "consumer");
    }

    // ---- from one protocol to the other, live

    static void checkAGroupIsUpgradedAndDowngradedWhileItReads() throws Exception {
        for (String assignor : List.of("RangeAssignor", "CooperativeStickyAssignor")) {
            String topic = topic(6);
            String group = name("upgrade");
            String[] classic = {"partition.assignment.strategy", "org.apache.kafka.clients.consumer." + assignor};
            String[] modern = {"group.protocol", "consumer"};
            try (Crew crew = new Crew(group)) {
                Worker first = crew.worker(classic).on(topic);
                Worker second = crew.worker(classic).on(topic);
                crew.sharesAre(3, 3);
                same(GroupType.CLASSIC, type(group));
                write(topic, 6, 20);
                crew.seen.eachOnce(topic, 6, 20);
                Worker third = crew.worker(modern).on(topic);
                crew.sharesAre(2, 2, 2);
                same(GroupType.CONSUMER, type(group));
                write(topic, 6, 20);
                crew.seen.eachOnce(topic, 6, 40);
                first.leave();
                crew.sharesAre(3, 3);
                second.leave();
                crew.sharesAre(6);
                write(topic, 6, 20);
                crew.seen.eachOnce(topic, 6, 60);
                Worker fourth = crew.worker(classic).on(topic);
                crew.sharesAre(3, 3);
                same(GroupType.CONSUMER, type(group));
                write(topic, 6, 20);
                crew.seen.eachOnce(topic, 6, 80);
                third.leave();
                crew.sharesAre(6);
                same(GroupType.CLASSIC, type(group));
                write(topic, 6, 20);
                crew.seen.eachOnce(topic, 6, 100);
            }
        }
    }

    static GroupType type(String group) throws Exception {
        return admin.describeConsumerGroups(List.of(group)).all().get().get(group).type();
    }

    // ---- offsets

    static void offsets(String... settings) throws Exception {
        String topic = topic(2);
        String group = name("offsets");
        write(topic, 2, 10);
        TopicPartition zero = new TopicPartition(topic, 0);
        TopicPartition one = new TopicPartition(topic, 1);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(group, settings)) {
            consumer.subscribe(List.of(topic));
            int read = 0;
            for (long end = System.nanoTime() + 120_000_000_000L; read < 20 && System.nanoTime() < end; ) {
                read += consumer.poll(Duration.ofMillis(100)).count();
            }
            same(20, read);
            Map<TopicPartition, OffsetAndMetadata> nothing = consumer.committed(Set.of(zero, one));
            truth(nothing.get(zero) == null && nothing.get(one) == null, nothing.toString());
            consumer.commitSync(Map.of(zero, new OffsetAndMetadata(4, Optional.of(0), "four")));
            same(new OffsetAndMetadata(4, Optional.of(0), "four"), consumer.committed(Set.of(zero)).get(zero));
            refused(OffsetMetadataTooLarge.class, () -> {
                consumer.commitSync(Map.of(zero, new OffsetAndMetadata(4, "x".repeat(4097))));
                return null;
            });
            refused(KafkaException.class, () -> {
                consumer.commitSync(Map.of(new TopicPartition(topic, 7), new OffsetAndMetadata(4)), Duration.ofSeconds(1));
                return null;
            });
            AtomicInteger done = new AtomicInteger();
            consumer.commitAsync(Map.of(one, new OffsetAndMetadata(6)), (committed, failure) -> done.set(failure == null ? 1 : 2));
            for (int attempt = 0; attempt < 2_400 && done.get() == 0; attempt++) {
                consumer.poll(Duration.ofMillis(50));
            }
            same(1, done.get());
            refused(UnknownMemberIdException.class, () -> admin.alterConsumerGroupOffsets(group, Map.of(zero, new OffsetAndMetadata(1))).all().get());
            refused(GroupNotEmptyException.class, () -> admin.deleteConsumerGroups(List.of(group)).all().get());
            refused(GroupSubscribedToTopicException.class, () -> admin.deleteConsumerGroupOffsets(group, Set.of(zero)).all().get());
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(group, settings)) {
            consumer.subscribe(List.of(topic));
            Map<Integer, Long> first = new HashMap<>();
            for (long end = System.nanoTime() + 120_000_000_000L; first.size() < 2 && System.nanoTime() < end; ) {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> first.putIfAbsent(record.partition(), record.offset()));
            }
            same(Map.of(0, 4L, 1, 6L), first);
        }
        admin.alterConsumerGroupOffsets(group, Map.of(zero, new OffsetAndMetadata(1, "by hand"))).all().get();
        same(Map.of(zero, 1L, one, 6L), admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().entrySet().stream().collect(Collectors.toMap(Map.Entry::getKey, entry -> entry.getValue().offset())));
        admin.deleteConsumerGroupOffsets(group, Set.of(one)).all().get();
        same(Set.of(zero), admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().keySet());
        admin.deleteConsumerGroups(List.of(group)).all().get();
        refused(GroupIdNotFoundException.class, () -> admin.deleteConsumerGroups(List.of(group)).all().get());
        same(Map.of(), admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get());
    }

    static void checkClassicOffsetsAreCommittedFetchedAlteredAndDeleted() throws Exception {
        offsets();
    }

    static void checkConsumersOffsetsAreCommittedFetchedAlteredAndDeleted() throws Exception {
        offsets("group.protocol", "consumer");
    }

    static void automatic(String... settings) throws Exception {
        String topic = topic(1);
        String group = name("automatic");
        write(topic, 1, 100);
        TopicPartition zero = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(group, with(settings, "enable.auto.commit", "true", "auto.commit.interval.ms", "100"))) {
            consumer.subscribe(List.of(topic));
            eventually(() -> {
                consumer.poll(Duration.ofMillis(50));
                OffsetAndMetadata committed = admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(zero);
                return committed != null && committed.offset() == 100;
            }, "offsets are not committed by themselves");
            write(topic, 1, 5);
            for (int read = 0; read < 5; ) {
                read += consumer.poll(Duration.ofMillis(50)).count();
            }
        }
        same(105L, admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(zero).offset());
    }

    static void checkClassicOffsetsAreCommittedAutomatically() throws Exception {
        automatic();
    }

    static void checkConsumersOffsetsAreCommittedAutomatically() throws Exception {
        automatic("group.protocol", "consumer");
    }

    static void checkAnAssignedConsumerCommitsWithoutMembers() throws Exception {
        String topic = topic(1);
        String group = name("simple");
        TopicPartition zero = new TopicPartition(topic, 0);
        for (String protocol : List.of("classic", "consumer")) {
            try (KafkaConsumer<byte[], byte[]> consumer = consumer(group, "group.protocol", protocol)) {
                consumer.assign(List.of(zero));
                consumer.commitSync(Map.of(zero, new OffsetAndMetadata(protocol.length())));
                same((long) protocol.length(), consumer.committed(Set.of(zero)).get(zero).offset());
            }
        }
        GroupListing listing = admin.listGroups().all().get().stream().filter(each -> each.groupId().equals(group)).findFirst().get();
        truth(listing.isSimpleConsumerGroup(), listing.toString());
    }

    // ---- what the admin client sees

    static void checkGroupsAreListedAndDescribed() throws Exception {
        String topic = topic(4);
        String classic = name("listed-classic");
        String modern = name("listed-consumer");
        try (Crew one = new Crew(classic); Crew two = new Crew(modern)) {
            one.worker("client.id", "classic-client").on(topic);
            two.worker("client.id", "modern-client", "group.protocol", "consumer").on(topic);
            one.sharesAre(4);
            two.sharesAre(4);
            eventually(() -> admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.CONSUMER)).inGroupStates(Set.of(GroupState.STABLE))).all().get().stream().map(GroupListing::groupId).toList().contains(modern), "listed by type and state");
            List<String> classics = admin.listGroups(new ListGroupsOptions().withTypes(Set.of(GroupType.CLASSIC))).all().get().stream().map(GroupListing::groupId).toList();
            truth(classics.contains(classic) && !classics.contains(modern), classics.toString());
            List<String> consumers = admin.listGroups(ListGroupsOptions.forConsumerGroups()).all().get().stream().map(GroupListing::groupId).toList();
            truth(consumers.contains(classic) && consumers.contains(modern), consumers.toString());
            Map<String, ConsumerGroupDescription> described = admin.describeConsumerGroups(List.of(classic, modern), new DescribeConsumerGroupsOptions().includeAuthorizedOperations(true)).all().get();
            same(List.of(GroupState.STABLE, GroupType.CLASSIC, "range"), List.of(described.get(classic).groupState(), described.get(classic).type(), described.get(classic).partitionAssignor()));
            same(List.of(GroupState.STABLE, GroupType.CONSUMER, "uniform"), List.of(described.get(modern).groupState(), described.get(modern).type(), described.get(modern).partitionAssignor()));
            for (ConsumerGroupDescription description : described.values()) {
                MemberDescription member = description.members().iterator().next();
                same("/127.0.0.1", member.host());
                same(4, member.assignment().topicPartitions().size());
                same(1, description.coordinator().id());
                truth(description.authorizedOperations().containsAll(Set.of(org.apache.kafka.common.acl.AclOperation.READ, org.apache.kafka.common.acl.AclOperation.DELETE)), "" + description.authorizedOperations());
            }
            MemberDescription consumer = described.get(modern).members().iterator().next();
            same("modern-client", consumer.clientId());
            same(4, consumer.targetAssignment().get().topicPartitions().size());
            truth(consumer.memberEpoch().get() > 0 && consumer.upgraded().get(), consumer.toString());
            same(described.get(modern).groupEpoch(), described.get(modern).targetAssignmentEpoch());
            ClassicGroupDescription plain = admin.describeClassicGroups(List.of(classic)).all().get().get(classic);
            same(List.of("consumer", "range", ClassicGroupState.STABLE), List.of(plain.protocol(), plain.protocolData(), plain.state()));
            refused(GroupIdNotFoundException.class, () -> admin.describeConsumerGroups(List.of(name("unknown"))).all().get());
            admin.removeMembersFromConsumerGroup(classic, new RemoveMembersFromConsumerGroupOptions()).all().get();
            one.sharesAre(4);
        }
        same(GroupState.EMPTY, admin.describeConsumerGroups(List.of(modern)).all().get().get(modern).groupState());
    }

    static void checkAMemberThatWasRemovedCannotCommit() throws Exception {
        String topic = topic(1);
        String group = name("removed");
        write(topic, 1, 10);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(group, "heartbeat.interval.ms", "9000")) {
            consumer.subscribe(List.of(topic));
            for (int read = 0; read < 10; ) {
                read += consumer.poll(Duration.ofMillis(50)).count();
            }
            admin.removeMembersFromConsumerGroup(group, new RemoveMembersFromConsumerGroupOptions()).all().get();
            refused(CommitFailedException.class, () -> {
                consumer.commitSync();
                return null;
            });
            eventually(() -> {
                consumer.poll(Duration.ofMillis(50));
                return consumer.assignment().size() == 1;
            }, "it joins again");
        }
    }

    static void checkAnUnknownAssignorIsRefused() throws Exception {
        String topic = topic(1);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(name("assignor"), "group.protocol", "consumer", "group.remote.assignor", "nonsense")) {
            consumer.subscribe(List.of(topic));
            refused(UnsupportedAssignorException.class, () -> {
                for (int attempt = 0; attempt < 1_200; attempt++) {
                    consumer.poll(Duration.ofMillis(100));
                }
                return null;
            });
        }
    }

    static void checkMembersWithoutACommonAssignorAreRefused() throws Exception {
        String topic = topic(1);
        String group = name("inconsistent");
        try (Crew crew = new Crew(group)) {
            crew.worker().on(topic);
            crew.sharesAre(1);
            try (KafkaConsumer<byte[], byte[]> other = consumer(group, "partition.assignment.strategy", "org.apache.kafka.clients.consumer.RoundRobinAssignor")) {
                other.subscribe(List.of(topic));
                refused(InconsistentGroupProtocolException.class, () -> {
                    for (int attempt = 0; attempt < 1_200; attempt++) {
                        other.poll(Duration.ofMillis(100));
                    }
                    return null;
                });
            }
        }
    }

    static void checkAFullGroupRefusesNewMembers() throws Exception {
        String topic = topic(6);
        for (String protocol : List.of("classic", "consumer")) {
            try (Crew crew = new Crew(name("full"))) {
                for (int number = 0; number < 5; number++) {
                    crew.worker("group.protocol", protocol).on(topic);
                }
                crew.sharesAre(1, 1, 1, 1, 2);
                Worker sixth = crew.worker("group.protocol", protocol).on(topic);
                eventually(() -> sixth.failure != null, "a sixth member is let in");
                truth(sixth.failure instanceof GroupMaxSizeReachedException, "" + sixth.failure);
                sixth.failure = null;
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        admin = Admin.create(properties("default.api.timeout.ms", "120000", "request.timeout.ms", "60000"));
        Map<String, Method> checks = new TreeMap<>();
        for (Method method : JavaGroups.class.getDeclaredMethods()) {
            boolean isWanted = arguments.length > 2 ? method.getName().matches(arguments[2]) : method.getName().startsWith("check");
            if (isWanted && Modifier.isStatic(method.getModifiers()) && method.getParameterCount() == 0) {
                checks.put(method.getName(), method);
            }
        }
        ExecutorService pool = Executors.newFixedThreadPool(arguments.length < 2 ? 1 : Integer.parseInt(arguments[1]));
        for (Map.Entry<String, Method> check : checks.entrySet()) {
            pool.submit(() -> run(check.getKey(), check.getValue()));
        }
        pool.shutdown();
        pool.awaitTermination(15, TimeUnit.MINUTES);
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }

    static void run(String name, Method check) {
        long start = System.nanoTime();
        try {
            check.invoke(null);
            System.out.println("ok " + name + " " + (System.nanoTime() - start) / 1_000_000 + " ms");
        } catch (InvocationTargetException failure) {
            Throwable cause = failure.getCause();
            String where = Arrays.stream(cause.getStackTrace()).filter(frame -> frame.getClassName().startsWith("JavaGroups"))
                .map(frame -> frame.getMethodName() + ":" + frame.getLineNumber()).limit(6).collect(Collectors.joining(" < "));
            String why = cause + (cause.getCause() == null ? "" : " because of " + cause.getCause());
            System.out.println("failed " + name + ": " + (why.substring(0, Math.min(1000, why.length())) + " at " + where).replace('\n', ' '));
        } catch (IllegalAccessException impossible) {
            throw new AssertionError(impossible);
        }
    }
}
