import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.IntStream;

import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

/**
 * Java's share consumer: every method called check... runs by itself and prints one line, "ok NAME" or "failed NAME: why".
 * Checks run side by side; each has topics and groups of its own. The scenarios are those of the share consumer's own
 * integration tests in Apache Kafka.
 * Arguments: the server, how many checks run at once, and a regular expression of names (by default check.*).
 */
public class JavaShareGroups {
    static String bootstrap;
    static Admin admin;
    static final AtomicInteger numbers = new AtomicInteger();
    static final long PATIENCE_SECONDS = 120;
    static final Duration MOMENT = Duration.ofMillis(500);
    static final Duration NOTHING_COMES = Duration.ofMillis(1500);
    static final String SHORT_LOCK_MS = "4000";

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
        } catch (RuntimeException failure) {
            truth(by.isInstance(failure), "expected " + by.getSimpleName() + " but got " + failure);
            return;
        }
        throw new AssertionError("expected " + by.getSimpleName() + " but it succeeded");
    }

    static void eventually(Callable<Boolean> claim, Callable<String> what) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        while (!claim.call()) {
            truth(System.nanoTime() < end, what.call());
            Thread.sleep(20);
        }
    }

    static String name(String of) {
        return of + "-" + ProcessHandle.current().pid() + "-" + numbers.incrementAndGet();
    }

    static String topic(int partitions, String... pairs) throws Exception {
        return topicNamed(name("java-share"), partitions, pairs);
    }

    static String topicNamed(String name, int partitions, String... pairs) throws Exception {
        Map<String, String> settings = new HashMap<>();
        for (int index = 0; index < pairs.length; index += 2) {
            settings.put(pairs[index], pairs[index + 1]);
        }
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(settings))).all().get();
        eventually(() -> admin.listTopics().names().get().contains(name), () -> "the new topic is not listed");
        return name;
    }

    static void set(String group, String... pairs) throws Exception {
        List<AlterConfigOp> changes = new ArrayList<>();
        for (int index = 0; index < pairs.length; index += 2) {
            changes.add(new AlterConfigOp(new ConfigEntry(pairs[index], pairs[index + 1]), AlterConfigOp.OpType.SET));
        }
        ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
        admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
    }

    /** A group that begins with the first record. */
    static String group(String... pairs) throws Exception {
        String group = name("group");
        set(group, "share.auto.offset.reset", "earliest");
        if (pairs.length > 0) {
            set(group, pairs);
        }
        return group;
    }

    static Properties properties(String... pairs) {
        Properties properties = new Properties();
        properties.put("bootstrap.servers", bootstrap);
        for (int index = 0; index < pairs.length; index += 2) {
            properties.put(pairs[index], pairs[index + 1]);
        }
        return properties;
    }

    static Member member(String group, String topic, String... pairs) {
        return new Member(group, topic, pairs);
    }

    static Member explicit(String group, String topic, String... pairs) {
        String[] all = Arrays.copyOf(pairs, pairs.length + 2);
        all[pairs.length] = "share.acknowledgement.mode";
        all[pairs.length + 1] = "explicit";
        return new Member(group, topic, all);
    }

    static class Member implements AutoCloseable {
        final KafkaShareConsumer<byte[], byte[]> consumer;

        Member(String group, String topic, String... pairs) {
            Properties properties = properties(pairs);
            properties.put("group.id", group);
            properties.putIfAbsent("metadata.max.age.ms", "1000");
            consumer = new KafkaShareConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
            if (topic != null) {
                consumer.subscribe(List.of(topic));
            }
        }

        List<ConsumerRecord<byte[], byte[]>> poll(Duration duration) {
            List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
            consumer.poll(duration).forEach(records::add);
            return records;
        }

        /** The records of the first poll that has any. */
        List<ConsumerRecord<byte[], byte[]>> some() throws Exception {
            List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
            eventually(() -> {
                records.addAll(poll(MOMENT));
                return !records.isEmpty();
            }, () -> "no record comes");
            return records;
        }

        /** Polls until it has so many records; each is acknowledged at once with what the function says. */
        List<ConsumerRecord<byte[], byte[]>> take(int count, Function<ConsumerRecord<byte[], byte[]>, AcknowledgeType> kind) throws Exception {
            List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
            eventually(() -> {
                List<ConsumerRecord<byte[], byte[]>> polled = poll(MOMENT);
                if (kind != null) {
                    polled.forEach(record -> consumer.acknowledge(record, kind.apply(record)));
                }
                records.addAll(polled);
                return records.size() >= count;
            }, () -> "got " + records.size() + " of " + count);
            return records;
        }

        List<ConsumerRecord<byte[], byte[]>> take(int count) throws Exception {
            return take(count, null);
        }

        void acknowledge(List<ConsumerRecord<byte[], byte[]>> records, AcknowledgeType kind) {
            records.forEach(record -> consumer.acknowledge(record, kind));
        }

        void commit() {
            consumer.commitSync().forEach((partition, error) -> truth(error.isEmpty(), partition + ": " + error));
        }

        void nothing() {
            same(List.of(), offsets(poll(NOTHING_COMES)));
        }

        @Override
        public void close() {
            consumer.close();
        }
    }

    static List<Long> offsets(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(ConsumerRecord::offset).sorted().toList();
    }

    static List<Long> range(int from, int to) {
        return IntStream.range(from, to).mapToObj(number -> (long) number).toList();
    }

    static Set<Integer> counts(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(record -> (int) record.deliveryCount().orElse((short) 0)).collect(Collectors.toSet());
    }

    static KafkaProducer<byte[], byte[]> producer(String... pairs) {
        return new KafkaProducer<>(properties(pairs), new ByteArraySerializer(), new ByteArraySerializer());
    }

    static ProducerRecord<byte[], byte[]> record(String topic, int partition, String value) {
        return new ProducerRecord<>(topic, partition, null, value.getBytes());
    }

    static void write(String topic, int partitions, int each, String... pairs) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(pairs)) {
            for (int partition = 0; partition < partitions; partition++) {
                for (int number = 0; number < each; number++) {
                    producer.send(record(topic, partition, "value " + number));
                }
            }
            producer.flush();
        }
    }

    /** Records of which each is a batch of its own. */
    static void writeSingly(String topic, int each) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            for (int number = 0; number < each; number++) {
                producer.send(record(topic, 0, "value " + number)).get();
            }
        }
    }

    static void writeTransaction(KafkaProducer<byte[], byte[]> producer, String topic, String value, boolean commits) {
        producer.beginTransaction();
        producer.send(record(topic, 0, value));
        producer.flush();
        if (commits) {
            producer.commitTransaction();
        } else {
            producer.abortTransaction();
        }
    }

    static Set<String> values(List<ConsumerRecord<byte[], byte[]>> records) {
        return records.stream().map(record -> new String(record.value())).collect(Collectors.toSet());
    }

    /** What a group has left of a partition; nothing while the group has no offset there. */
    static Optional<SharePartitionOffsetInfo> standing(String group, String topic) throws Exception {
        Map<TopicPartition, SharePartitionOffsetInfo> found = admin.listShareGroupOffsets(Map.of(group, new ListShareGroupOffsetsSpec()))
            .partitionsToOffsetInfo(group).get();
        return Optional.ofNullable(found.get(new TopicPartition(topic, 0)));
    }

    static void lagIs(long lag, String group, String topic) throws Exception {
        eventually(() -> standing(group, topic).flatMap(SharePartitionOffsetInfo::lag).equals(Optional.of(lag)), () -> "expected lag " + lag + " but " + standing(group, topic));
    }

    // ---- subscribing and polling

    static void checkPollWithoutASubscriptionIsRefused() throws Exception {
        String topic = topic(1);
        try (Member member = member(group(), null)) {
            refused(IllegalStateException.class, () -> member.poll(MOMENT));
            member.consumer.subscribe(List.of(topic));
            same(Set.of(topic), member.consumer.subscription());
            same(0, member.poll(MOMENT).size());
            member.consumer.subscribe(List.of(topic));
            same(0, member.poll(MOMENT).size());
            member.consumer.unsubscribe();
            same(Set.of(), member.consumer.subscription());
            refused(IllegalStateException.class, () -> member.poll(MOMENT));
            member.consumer.subscribe(List.of(topic));
            member.consumer.subscribe(List.of());
            refused(IllegalStateException.class, () -> member.poll(MOMENT));
        }
    }

    static void checkAnInvalidTopicIsRefused() throws Exception {
        try (Member member = member(group(), "topic abc")) {
            refused(InvalidTopicException.class, () -> member.take(1));
        }
    }

    static void checkATopicThatIsCreatedLaterIsRead() throws Exception {
        String topic = name("java-share-later");
        try (Member member = member(group(), topic)) {
            same(0, member.poll(MOMENT).size());
            topicNamed(topic, 1);
            write(topic, 1, 3);
            same(range(0, 3), offsets(member.take(3)));
        }
    }

    static void checkADeletedTopicIsForgotten() throws Exception {
        String kept = topic(1);
        String gone = topic(1);
        try (Member member = member(group(), null)) {
            member.consumer.subscribe(List.of(kept, gone));
            write(kept, 1, 1);
            write(gone, 1, 1);
            same(Set.of(kept, gone), member.take(2).stream().map(ConsumerRecord::topic).collect(Collectors.toSet()));
            member.commit();
            admin.deleteTopics(List.of(gone)).all().get();
            for (int number = 0; number < 5; number++) {
                write(kept, 1, 1);
                same(kept, member.take(1).get(0).topic());
            }
        }
    }

    static void checkCommitOfADeletedTopicSaysSo() throws Exception {
        String topic = topic(1);
        write(topic, 1, 2);
        try (Member member = explicit(group(), topic)) {
            List<ConsumerRecord<byte[], byte[]>> records = member.take(2);
            member.acknowledge(records, AcknowledgeType.ACCEPT);
            admin.deleteTopics(List.of(topic)).all().get();
            eventually(() -> !admin.listTopics().names().get().contains(topic), () -> "the topic is listed");
            Map<TopicIdPartition, Optional<KafkaException>> results = member.consumer.commitSync(Duration.ofSeconds(20));
            same(1, results.size());
            KafkaException error = results.values().iterator().next().orElseThrow();
            truth(error instanceof UnknownTopicIdException || error instanceof UnknownTopicOrPartitionException || error instanceof TimeoutException
                || error instanceof InvalidRecordStateException || error instanceof NotLeaderOrFollowerException, "" + error);
        }
    }

    static void checkAnotherSubscriptionSendsWhatWasAcknowledged() throws Exception {
        String first = topic(1);
        String second = topic(1);
        write(first, 1, 2);
        write(second, 1, 1);
        String group = group();
        Map<String, Integer> committed = new ConcurrentHashMap<>();
        try (Member member = explicit(group, first)) {
            member.consumer.setAcknowledgementCommitCallback((offsets, error) ->
                offsets.forEach((partition, done) -> committed.merge(partition.topic() + (error == null ? "" : " " + error), done.size(), Integer::sum)));
            List<ConsumerRecord<byte[], byte[]>> records = member.take(2);
            member.consumer.acknowledge(records.get(0), AcknowledgeType.ACCEPT);
            member.consumer.acknowledge(records.get(1), AcknowledgeType.REJECT);
            member.consumer.subscribe(List.of(second));
            List<ConsumerRecord<byte[], byte[]>> others = member.take(1, record -> AcknowledgeType.ACCEPT);
            same(second, others.get(0).topic());
            eventually(() -> {
                member.poll(Duration.ofMillis(100));
                return committed.equals(Map.of(first, 2, second, 1));
            }, () -> "committed " + committed);
        }
        lagIs(0, group, first);
    }

    static void checkWakeupAndInterrupt() throws Exception {
        String topic = topic(1);
        write(topic, 1, 1);
        try (Member member = member(group(), topic)) {
            member.consumer.wakeup();
            refused(WakeupException.class, () -> member.poll(Duration.ZERO));
            try {
                Thread.currentThread().interrupt();
                refused(InterruptException.class, () -> member.poll(MOMENT));
            } finally {
                Thread.interrupted();
            }
            same(1, member.take(1).size());
        }
    }

    static void checkHeadersAndSizes() throws Exception {
        String topic = topic(1, "max.message.bytes", "3000000");
        try (KafkaProducer<byte[], byte[]> producer = producer("max.request.size", "3000000")) {
            ProducerRecord<byte[], byte[]> record = record(topic, 0, "with headers");
            record.headers().add("one", "1".getBytes()).add("two", "2".getBytes()).add("one", "3".getBytes()).add("none", null);
            producer.send(record).get();
            producer.send(new ProducerRecord<>(topic, 0, null, new byte[10_000])).get();
            producer.send(new ProducerRecord<>(topic, 0, null, new byte[2_000_000])).get();
        }
        try (Member member = member(group(), topic, "fetch.max.bytes", "1000", "max.partition.fetch.bytes", "100")) {
            List<ConsumerRecord<byte[], byte[]>> records = member.take(3);
            List<String> headers = new ArrayList<>();
            records.get(0).headers().forEach(header -> headers.add(header.key() + "=" + (header.value() == null ? null : new String(header.value()))));
            same(List.of("one=1", "two=2", "one=3", "none=null"), headers);
            same(10_000, records.get(1).value().length);
            same(2_000_000, records.get(2).value().length);
        }
    }

    static void checkMaxPollRecords() throws Exception {
        String topic = topic(1);
        writeSingly(topic, 20);
        try (Member member = member(group(), topic, "max.poll.records", "2")) {
            List<Long> seen = new ArrayList<>();
            eventually(() -> {
                List<ConsumerRecord<byte[], byte[]>> records = member.poll(MOMENT);
                truth(records.size() <= 2, "one poll gave " + records.size());
                seen.addAll(offsets(records));
                return seen.size() >= 20;
            }, () -> "got " + seen);
            same(range(0, 20), seen);
        }
    }

    static void checkControlRecordsAreSkipped() throws Exception {
        String topic = topic(1);
        try (KafkaProducer<byte[], byte[]> producer = producer("transactional.id", name("id"))) {
            producer.initTransactions();
            writeTransaction(producer, topic, "a", true);
            writeTransaction(producer, topic, "b", false);
            writeTransaction(producer, topic, "c", true);
        }
        String group = group();
        try (Member member = member(group, topic)) {
            same(Set.of("a", "b", "c"), values(member.take(3)));
            member.nothing();
            member.nothing();
            lagIs(0, group, topic);
        }
    }

    // ---- acknowledging

    static void checkImplicitAcknowledgement() throws Exception {
        String topic = topic(1);
        writeSingly(topic, 4);
        String group = group();
        try (Member member = member(group, topic)) {
            List<ConsumerRecord<byte[], byte[]>> records = member.take(4);
            refused(IllegalStateException.class, () -> {
                member.consumer.acknowledge(records.get(0));
                return null;
            });
            member.commit();
            member.nothing();
        }
        try (Member member = member(group, topic)) {
            member.nothing();
        }
        lagIs(0, group, topic);
    }

    static void checkExplicitAcknowledgementOfEveryKind() throws Exception {
        String topic = topic(1);
        write(topic, 1, 6);
        String group = group();
        try (Member member = explicit(group, topic)) {
            List<ConsumerRecord<byte[], byte[]>> records = member.take(6, record ->
                record.offset() % 3 == 0 ? AcknowledgeType.ACCEPT : record.offset() % 3 == 1 ? AcknowledgeType.RELEASE : AcknowledgeType.REJECT);
            same(Set.of(1), counts(records));
            same(List.of(1L, 4L), offsets(member.take(2, record -> {
                same(Optional.of((short) 2), record.deliveryCount());
                return AcknowledgeType.ACCEPT;
            })));
            member.commit();
            member.nothing();
        }
        lagIs(0, group, topic);
    }

    static void checkPollBeforeAcknowledgingIsRefused() throws Exception {
        String topic = topic(1);
        write(topic, 1, 2);
        try (Member member = explicit(group(), topic)) {
            List<ConsumerRecord<byte[], byte[]>> records = member.take(1);
            refused(IllegalStateException.class, () -> member.poll(MOMENT));
            member.acknowledge(records, AcknowledgeType.ACCEPT);
            refused(IllegalStateException.class, () -> {
                member.consumer.acknowledge(new ConsumerRecord<>(topic, 0, 77, null, null), AcknowledgeType.ACCEPT);
                return null;
            });
            member.commit();
        }
    }

    static void checkTheLastWordCounts() throws Exception {
        String topic = topic(1);
        write(topic, 1, 1);
        String group = group();
        try (Member member = explicit(group, topic)) {
            List<ConsumerRecord<byte[], byte[]>> records = member.take(1);
            member.acknowledge(records, AcknowledgeType.RELEASE);
            member.acknowledge(records, AcknowledgeType.ACCEPT);
            member.commit();
            member.nothing();
        }
        try (Member member = explicit(group, topic)) {
            member.nothing();
        }
    }

    static void checkCloseReleasesWhatWasNotAcknowledged() throws Exception {
        String topic = topic(1);
        write(topic, 1, 4);
        String group = group();
        try (Member member = explicit(group, topic)) {
            List<ConsumerRecord<byte[], byte[]>> records = member.take(4);
            member.consumer.acknowledge(records.get(0), AcknowledgeType.ACCEPT);
            member.consumer.acknowledge(records.get(1), AcknowledgeType.RELEASE);
        }
        try (Member member = explicit(group, topic)) {
            List<ConsumerRecord<byte[], byte[]>> records = member.take(3, record -> AcknowledgeType.ACCEPT);
            same(range(1, 4), offsets(records));
            same(Set.of(2), counts(records));
            member.commit();
        }
    }

    static void checkTheCallbackIsTold() throws Exception {
        String topic = topic(1);
        writeSingly(topic, 4);
        Map<Long, String> told = new ConcurrentHashMap<>();
        AcknowledgementCommitCallback callback = (offsets, error) ->
            offsets.values().forEach(some -> some.forEach(offset -> told.put(offset, String.valueOf(error))));
        String group = group();
        try (Member member = explicit(group, topic, "max.poll.records", "1")) {
            member.consumer.setAcknowledgementCommitCallback(callback);
            member.acknowledge(member.some(), AcknowledgeType.ACCEPT);
            member.consumer.commitAsync();
            eventually(() -> {
                List<ConsumerRecord<byte[], byte[]>> more = member.poll(Duration.ofMillis(100));
                member.acknowledge(more, AcknowledgeType.ACCEPT);
                return "null".equals(told.get(0L));
            }, () -> "told " + told);
        }
        same(Set.of("null"), new HashSet<>(told.values()));
        int before = told.size();
        write(topic, 1, 1);
        try (Member member = member(group, topic)) {
            member.consumer.setAcknowledgementCommitCallback(callback);
            member.some();
            member.poll(Duration.ZERO);
        }
        truth(told.size() > before, "close tells the callback what it acknowledged");
    }

    static void checkACallbackMayNotCallTheConsumer() throws Exception {
        String topic = topic(1);
        write(topic, 1, 1);
        try (Member member = member(group(), topic)) {
            List<Throwable> thrown = new ArrayList<>();
            member.consumer.setAcknowledgementCommitCallback((offsets, error) -> {
                try {
                    member.poll(MOMENT);
                } catch (Throwable failure) {
                    thrown.add(failure);
                }
            });
            member.some();
            eventually(() -> {
                member.poll(Duration.ofMillis(100));
                return !thrown.isEmpty();
            }, () -> "the callback is not called");
            truth(thrown.get(0) instanceof IllegalStateException, "" + thrown);
        }
    }

    static void checkAnExpiredLockIsToldAndRedelivered() throws Exception {
        String topic = topic(1);
        write(topic, 1, 1);
        String group = group("share.record.lock.duration.ms", SHORT_LOCK_MS);
        try (Member first = explicit(group, topic)) {
            List<ConsumerRecord<byte[], byte[]>> records = first.take(1);
            same(Optional.of(Integer.parseInt(SHORT_LOCK_MS)), first.consumer.acquisitionLockTimeoutMs());
            try (Member second = explicit(group, topic)) {
                List<ConsumerRecord<byte[], byte[]>> again = second.take(1);
                truth(again.get(0).deliveryCount().get() >= 2, "delivery count " + counts(again));
                first.acknowledge(records, AcknowledgeType.ACCEPT);
                Map<TopicIdPartition, Optional<KafkaException>> results = first.consumer.commitSync();
                truth(results.values().iterator().next().orElse(null) instanceof InvalidRecordStateException, "" + results);
            }
        }
    }

    static void checkARecordThatIsReleasedTooOftenIsGone() throws Exception {
        String topic = topic(1);
        write(topic, 1, 2);
        String group = group("share.delivery.count.limit", "3");
        try (Member member = explicit(group, topic)) {
            List<Integer> seen = new ArrayList<>();
            eventually(() -> {
                member.take(1, record -> {
                    if (record.offset() == 1) {
                        return AcknowledgeType.ACCEPT;
                    }
                    seen.add((int) record.deliveryCount().get());
                    return AcknowledgeType.RELEASE;
                });
                return seen.size() == 3;
            }, () -> "delivered " + seen);
            same(List.of(1, 2, 3), seen);
            member.commit();
            member.nothing();
        }
        lagIs(0, group, topic);
    }

    static void checkADeliveryLimitMayBeRaised() throws Exception {
        String topic = topic(1);
        write(topic, 1, 1);
        String group = group("share.delivery.count.limit", "2");
        try (Member member = explicit(group, topic)) {
            same(Set.of(1), counts(member.take(1, record -> AcknowledgeType.RELEASE)));
            member.commit();
            set(group, "share.delivery.count.limit", "4");
            for (int count = 2; count <= 4; count++) {
                same(Set.of(count), counts(member.take(1, record -> AcknowledgeType.RELEASE)));
                member.commit();
            }
            member.nothing();
        }
    }

    // ---- renewing

    static void checkRenewedRecordsAreHandedOutAgainToTheirMember() throws Exception {
        String topic = topic(1);
        write(topic, 1, 10);
        String group = group("share.record.lock.duration.ms", SHORT_LOCK_MS);
        try (Member member = explicit(group, topic); Member other = explicit(group, topic)) {
            List<ConsumerRecord<byte[], byte[]>> records = member.take(10);
            for (int round = 0; round < 3; round++) {
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    member.consumer.acknowledge(record, record.offset() % 2 == 0 && round == 0 ? AcknowledgeType.ACCEPT : AcknowledgeType.RENEW);
                }
                member.commit();
                Thread.sleep(Integer.parseInt(SHORT_LOCK_MS) / 2);
                same(List.of(), offsets(other.poll(Duration.ofMillis(100))));
                List<ConsumerRecord<byte[], byte[]>> again = new ArrayList<>();
                eventually(() -> again.addAll(member.poll(MOMENT)) && again.size() >= 5, () -> "renewed records are not seen again: " + offsets(again));
                same(List.of(1L, 3L, 5L, 7L, 9L), offsets(again));
                same(Set.of(1), counts(again));
                records = again;
            }
            member.acknowledge(records, AcknowledgeType.ACCEPT);
            member.commit();
        }
        lagIs(0, group, topic);
    }

    static void checkARenewalThatComesTooLateIsRefused() throws Exception {
        String topic = topic(1);
        write(topic, 1, 2);
        String group = group("share.record.lock.duration.ms", SHORT_LOCK_MS);
        try (Member first = explicit(group, topic)) {
            List<ConsumerRecord<byte[], byte[]>> records = first.take(2);
            try (Member second = explicit(group, topic)) {
                second.acknowledge(second.take(2), AcknowledgeType.RENEW);
                second.consumer.commitSync();
                first.acknowledge(records, AcknowledgeType.RENEW);
                Map<TopicIdPartition, Optional<KafkaException>> results = first.consumer.commitSync();
                truth(results.values().iterator().next().orElse(null) instanceof InvalidRecordStateException, "" + results);
            }
        }
    }

    static void checkRenewingMayBeForbidden() throws Exception {
        String topic = topic(1);
        write(topic, 1, 1);
        String group = group("share.renew.acknowledge.enable", "false");
        try (Member member = explicit(group, topic)) {
            member.acknowledge(member.take(1), AcknowledgeType.RENEW);
            Map<TopicIdPartition, Optional<KafkaException>> results = member.consumer.commitSync();
            truth(results.values().iterator().next().orElse(null) instanceof InvalidRecordStateException, "" + results);
        }
    }

    // ---- how many at once

    static void checkBatchOptimizedGivesWholeBatches() throws Exception {
        String topic = topic(1);
        write(topic, 1, 10, "linger.ms", "2000");
        try (Member member = explicit(group(), topic, "max.poll.records", "5", "share.acquire.mode", "batch_optimized")) {
            List<ConsumerRecord<byte[], byte[]>> records = member.some();
            same(range(0, 10), offsets(records));
            member.acknowledge(records, AcknowledgeType.ACCEPT);
            member.commit();
        }
    }

    static void checkRecordLimitCutsBatches() throws Exception {
        String topic = topic(1);
        write(topic, 1, 10, "linger.ms", "2000");
        String group = group();
        try (Member member = explicit(group, topic, "max.poll.records", "5", "share.acquire.mode", "record_limit")) {
            List<ConsumerRecord<byte[], byte[]>> records = member.some();
            same(range(0, 5), offsets(records));
            member.consumer.acknowledge(records.get(0), AcknowledgeType.RELEASE);
            member.acknowledge(records.subList(1, 5), AcknowledgeType.ACCEPT);
            Map<Long, Integer> seen = new TreeMap<>();
            eventually(() -> {
                List<ConsumerRecord<byte[], byte[]>> more = member.poll(MOMENT);
                truth(more.size() <= 5, "one poll gave " + more.size());
                more.forEach(record -> seen.put(record.offset(), (int) record.deliveryCount().get()));
                member.acknowledge(more, AcknowledgeType.ACCEPT);
                return seen.size() == 6;
            }, () -> "got " + seen);
            same(Map.of(0L, 2, 5L, 1, 6L, 1, 7L, 1, 8L, 1, 9L, 1), seen);
            member.commit();
        }
        try (Member member = explicit(group(), topic, "max.poll.records", "1", "share.acquire.mode", "record_limit")) {
            for (int offset = 0; offset < 10; offset++) {
                List<ConsumerRecord<byte[], byte[]>> records = member.some();
                same(range(offset, offset + 1), offsets(records));
                member.acknowledge(records, AcknowledgeType.ACCEPT);
            }
            member.commit();
        }
    }

    /** How many records each poll gives until a full delivery of all of them is released. */
    static List<Integer> portions(Member member, int count) throws Exception {
        List<Integer> sizes = new ArrayList<>();
        AtomicInteger left = new AtomicInteger(count);
        eventually(() -> {
            List<ConsumerRecord<byte[], byte[]>> records = member.poll(MOMENT);
            if (!records.isEmpty()) {
                sizes.add(records.size());
                member.acknowledge(records, AcknowledgeType.RELEASE);
                member.commit();
            }
            return left.addAndGet(-records.size()) <= 0;
        }, () -> "portions " + sizes);
        return sizes;
    }

    static void checkRecordsThatFailOftenComeInSmallPortions() throws Exception {
        String topic = topic(1);
        write(topic, 1, 64, "linger.ms", "2000");
        String group = group("share.delivery.count.limit", "5");
        try (Member member = explicit(group, topic)) {
            for (int count = 1; count <= 3; count++) {
                same(List.of(64), portions(member, 64));
            }
            Map<Long, List<Integer>> counts = new TreeMap<>();
            List<Integer> sizes = new ArrayList<>();
            eventually(() -> {
                List<ConsumerRecord<byte[], byte[]>> records = member.poll(MOMENT);
                sizes.add(records.size());
                records.forEach(record -> counts.computeIfAbsent(record.offset(), unused -> new ArrayList<>()).add((int) record.deliveryCount().get()));
                member.acknowledge(records, AcknowledgeType.RELEASE);
                member.commit();
                return counts.size() == 64 && counts.values().stream().allMatch(of -> of.size() == 2);
            }, () -> "counts " + counts);
            same(Set.of(List.of(4, 5)), new HashSet<>(counts.values()));
            sizes.removeIf(size -> size == 0);
            same(32, sizes.get(0));
            List<Integer> expected = new ArrayList<>(List.of(32));
            IntStream.range(0, 32).forEach(number -> expected.add(1));
            expected.add(32);
            IntStream.range(0, 32).forEach(number -> expected.add(1));
            same(expected, sizes);
            member.nothing();
        }
    }

    // ---- several members and groups

    static class Seen {
        final Map<String, Integer> counts = new ConcurrentHashMap<>();
        final AtomicInteger total = new AtomicInteger();
    }

    /** Members of a group poll side by side until they have seen so many different records. */
    static void together(String group, String topic, int members, int count, Seen seen, String... pairs) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(members);
        List<Future<?>> results = new ArrayList<>();
        for (int number = 0; number < members; number++) {
            results.add(pool.submit(() -> {
                try (Member member = member(group, topic, pairs)) {
                    eventually(() -> {
                        member.poll(MOMENT).forEach(record -> {
                            seen.counts.merge(record.partition() + ":" + record.offset(), 1, Integer::sum);
                            seen.total.incrementAndGet();
                        });
                        member.commit();
                        return seen.counts.size() >= count;
                    }, () -> "seen " + seen.counts.size() + " of " + count);
                }
                return null;
            }));
        }
        for (Future<?> result : results) {
            result.get();
        }
        pool.shutdown();
    }

    static void checkFourMembersShareAPartition() throws Exception {
        String topic = topic(1);
        write(topic, 1, 5000);
        Seen seen = new Seen();
        together(group(), topic, 4, 5000, seen);
        same(5000, seen.counts.size());
        same(5000, seen.total.get());
    }

    static void checkGroupsDoNotShare() throws Exception {
        String topic = topic(1);
        write(topic, 1, 1000);
        for (int number = 0; number < 2; number++) {
            Seen seen = new Seen();
            together(group(), topic, 2, 1000, seen);
            same(1000, seen.total.get());
        }
    }

    static void checkOneMemberTakesWhatAnotherLeft() throws Exception {
        String topic = topic(1);
        write(topic, 1, 300);
        String group = group();
        Set<Long> all = new HashSet<>();
        try (Member first = explicit(group, topic, "max.poll.records", "100")) {
            List<ConsumerRecord<byte[], byte[]>> records = first.some();
            first.acknowledge(records, AcknowledgeType.ACCEPT);
            first.commit();
            all.addAll(offsets(records));
            first.poll(NOTHING_COMES);
        }
        try (Member second = explicit(group, topic)) {
            eventually(() -> {
                for (ConsumerRecord<byte[], byte[]> record : second.poll(MOMENT)) {
                    truth(all.add(record.offset()), "an accepted record comes back: " + record.offset());
                    second.consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                }
                return all.size() == 300;
            }, () -> "got " + all.size());
            second.commit();
        }
        lagIs(0, group, topic);
    }

    static void checkMembersThatComeAndGoLoseNothing() throws Exception {
        String topic = topic(1);
        write(topic, 1, 2000);
        String group = group("share.delivery.count.limit", "10");
        Seen seen = new Seen();
        Future<?> workers;
        ExecutorService pool = Executors.newSingleThreadExecutor();
        for (int number = 0; number < 3; number++) {
            try (Member failing = explicit(group, topic, "max.poll.records", "100")) {
                failing.some();
            }
        }
        workers = pool.submit(() -> {
            together(group, topic, 3, 2000, seen);
            return null;
        });
        workers.get();
        pool.shutdown();
        same(2000, seen.total.get());
    }

    static void checkAFullGroupRefusesNewMembers() throws Exception {
        String topic = topic(1);
        String group = group();
        List<Member> members = new ArrayList<>();
        try {
            for (int number = 0; number < 5; number++) {
                members.add(member(group, topic));
                members.get(number).poll(MOMENT);
            }
            eventually(() -> admin.describeShareGroups(List.of(group)).all().get().get(group).members().size() == 5, () -> "not all are members");
            Member one = member(group, topic);
            members.add(one);
            refused(GroupMaxSizeReachedException.class, () -> one.take(1));
        } finally {
            members.forEach(Member::close);
        }
    }

    // ---- where a group begins

    static void checkAGroupBeginsAtTheEndUnlessItIsSet() throws Exception {
        String topic = topic(1);
        write(topic, 1, 3);
        String group = name("group");
        try (Member member = member(group, topic)) {
            eventually(() -> {
                same(List.of(), offsets(member.poll(MOMENT)));
                return standing(group, topic).isPresent() || !admin.describeShareGroups(List.of(group)).all().get().get(group).members().iterator().next().assignment().topicPartitions().isEmpty();
            }, () -> "no partition is assigned");
            member.nothing();
            write(topic, 1, 1);
            same(range(3, 4), offsets(member.take(1)));
        }
    }

    static void checkAGroupBeginsAtATimeThatIsLongAgo() throws Exception {
        String topic = topic(1);
        long now = System.currentTimeMillis();
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            for (int hours : new int[] {3, 2, 1, 0}) {
                producer.send(new ProducerRecord<>(topic, 0, now - Duration.ofHours(hours).toMillis() + 60_000, null, ("" + hours).getBytes())).get();
            }
        }
        String group = group("share.auto.offset.reset", "by_duration:PT1H");
        try (Member member = member(group, topic)) {
            same(Set.of("1", "0"), values(member.take(2)));
            member.nothing();
        }
        refused(InvalidConfigurationException.class, () -> {
            set(group, "share.auto.offset.reset", "by_duration:1h");
            return null;
        });
        refused(InvalidConfigurationException.class, () -> {
            set(group, "share.auto.offset.reset", "by_duration:-PT1H");
            return null;
        });
    }

    static void checkDeletedRecordsAreNotAwaited() throws Exception {
        String topic = topic(1);
        write(topic, 1, 10);
        admin.deleteRecords(Map.of(new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(4))).all().get();
        String group = group();
        try (Member member = explicit(group, topic)) {
            List<ConsumerRecord<byte[], byte[]>> records = member.take(6);
            same(range(4, 10), offsets(records));
            member.acknowledge(records, AcknowledgeType.RELEASE);
            member.commit();
            admin.deleteRecords(Map.of(new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(8))).all().get();
            eventually(() -> {
                List<ConsumerRecord<byte[], byte[]>> more = member.poll(MOMENT);
                member.acknowledge(more, more.stream().allMatch(record -> record.offset() >= 8) ? AcknowledgeType.ACCEPT : AcknowledgeType.RELEASE);
                member.commit();
                return standing(group, topic).flatMap(SharePartitionOffsetInfo::lag).equals(Optional.of(0L));
            }, () -> "" + standing(group, topic));
        }
    }

    // ---- transactions

    static void checkReadCommittedGivesNothingThatWasAborted() throws Exception {
        String topic = topic(1);
        String group = group("share.isolation.level", "read_committed");
        try (KafkaProducer<byte[], byte[]> producer = producer("transactional.id", name("id"))) {
            producer.initTransactions();
            for (int number = 0; number < 10; number++) {
                writeTransaction(producer, topic, number + "", number % 5 != 0);
            }
            producer.beginTransaction();
            producer.send(record(topic, 0, "open")).get();
            try (Member member = explicit(group, topic)) {
                same(Set.of("1", "2", "3", "4", "6", "7", "8", "9"), values(member.take(8, record -> AcknowledgeType.ACCEPT)));
                member.commit();
                member.nothing();
                producer.commitTransaction();
                same(Set.of("open"), values(member.take(1, record -> AcknowledgeType.ACCEPT)));
                member.commit();
            }
        }
        lagIs(0, group, topic);
    }

    static void checkTheIsolationLevelMayChange() throws Exception {
        String topic = topic(1);
        String group = group("share.isolation.level", "read_uncommitted");
        try (KafkaProducer<byte[], byte[]> producer = producer("transactional.id", name("id")); Member member = explicit(group, topic)) {
            producer.initTransactions();
            writeTransaction(producer, topic, "a", true);
            writeTransaction(producer, topic, "b", false);
            same(Set.of("a", "b"), values(member.take(2, record -> AcknowledgeType.ACCEPT)));
            member.commit();
            set(group, "share.isolation.level", "read_committed");
            member.poll(NOTHING_COMES);
            writeTransaction(producer, topic, "c", false);
            writeTransaction(producer, topic, "d", true);
            same(Set.of("d"), values(member.take(1, record -> AcknowledgeType.RELEASE)));
            set(group, "share.isolation.level", "read_uncommitted");
            same(Set.of("d"), values(member.take(1, record -> AcknowledgeType.ACCEPT)));
            member.commit();
        }
    }

    // ---- what is left

    static void checkTheLagOfAGroup() throws Exception {
        String topic = topic(1);
        String group = group();
        try (Member member = explicit(group, topic)) {
            member.poll(NOTHING_COMES);
            same(Optional.empty(), standing(group, topic));
            write(topic, 1, 1);
            member.take(1, record -> AcknowledgeType.ACCEPT);
            member.commit();
            lagIs(0, group, topic);
            write(topic, 1, 1);
            lagIs(1, group, topic);
            member.take(1, record -> AcknowledgeType.RELEASE);
            member.commit();
            lagIs(1, group, topic);
            member.take(1, record -> AcknowledgeType.REJECT);
            member.commit();
            lagIs(0, group, topic);
        }
        eventually(() -> admin.describeShareGroups(List.of(group)).all().get().get(group).members().isEmpty(), () -> "the member has not left");
        write(topic, 1, 2);
        lagIs(2, group, topic);
        admin.alterShareGroupOffsets(group, Map.of(new TopicPartition(topic, 0), 1L)).all().get();
        lagIs(3, group, topic);
        admin.deleteShareGroupOffsets(group, Set.of(topic)).all().get();
        same(Optional.empty(), standing(group, topic));
        admin.deleteShareGroups(List.of(group)).all().get();
    }

    static void checkRecordsInTheMiddleThatAreDoneAreNotLag() throws Exception {
        String topic = topic(1);
        write(topic, 1, 5);
        String group = group();
        try (Member member = explicit(group, topic)) {
            member.take(5, record -> record.offset() == 0 ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
            member.commit();
            eventually(() -> standing(group, topic).flatMap(SharePartitionOffsetInfo::lag).equals(Optional.of(1L)), () -> "" + standing(group, topic));
            same(0L, standing(group, topic).orElseThrow().startOffset());
        }
    }

    static void checkALoadOfReleasesEnds() throws Exception {
        String topic = topic(3);
        String group = group("share.delivery.count.limit", "10");
        Map<String, Integer> accepted = new HashMap<>();
        int[] reads = {0};
        try (Member member = explicit(group, topic)) {
            write(topic, 3, 500);
            eventually(() -> {
                for (ConsumerRecord<byte[], byte[]> record : member.poll(MOMENT)) {
                    reads[0]++;
                    boolean isFirst = record.deliveryCount().get() == 1;
                    member.consumer.acknowledge(record, isFirst ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT);
                    if (!isFirst) {
                        accepted.merge(record.partition() + ":" + record.offset(), 1, Integer::sum);
                    }
                }
                return accepted.size() == 1500;
            }, () -> "accepted " + accepted.size());
            member.commit();
        }
        same(3000, reads[0]);
        same(Set.of(1), new HashSet<>(accepted.values()));
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        admin = Admin.create(properties("default.api.timeout.ms", "120000", "request.timeout.ms", "60000"));
        Map<String, Method> checks = new TreeMap<>();
        for (Method method : JavaShareGroups.class.getDeclaredMethods()) {
            boolean isWanted = method.getName().matches(arguments.length > 2 ? arguments[2] : "check.*");
            if (isWanted && Modifier.isStatic(method.getModifiers()) && method.getParameterCount() == 0) {
                checks.put(method.getName(), method);
            }
        }
        ExecutorService pool = Executors.newFixedThreadPool(arguments.length < 2 ? 1 : Integer.parseInt(arguments[1]));
        checks.forEach((name, method) -> pool.submit(() -> run(name, method)));
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
            String where = Arrays.stream(cause.getStackTrace()).filter(frame -> frame.getClassName().startsWith("JavaShareGroups"))
                .map(frame -> frame.getMethodName() + ":" + frame.getLineNumber()).limit(6).collect(Collectors.joining(" < "));
            String why = cause + (cause.getCause() == null ? "" : " because of " + cause.getCause());
            System.out.println("failed " + name + ": " + (why.substring(0, Math.min(1000, why.length())) + " at " + where).replace('\n', ' '));
        } catch (IllegalAccessException impossible) {
            throw new AssertionError(impossible);
        }
    }
}
