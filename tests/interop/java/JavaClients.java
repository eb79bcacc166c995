import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.Collectors;

import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.quota.*;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.serialization.*;

/**
 * Java's producer, consumer and admin client against one server: every method called check... runs by itself and prints
 * one line, "ok NAME" or "failed NAME: why". Consumers assign their partitions; groups are another program's matter.
 */
public class JavaClients {
    static String bootstrap;
    static Admin admin;
    static int topicNumber;

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

    /** An answered change reaches the broker's own view of the metadata a moment later. */
    static void eventually(Claim claim, String what) throws Exception {
        for (int attempt = 0; !claim.holds(); attempt++) {
            truth(attempt < 2_400, what);
            Thread.sleep(50);
        }
    }

    static String topic(int partitions, String... configs) throws Exception {
        String name = "java-" + ProcessHandle.current().pid() + "-" + topicNumber++;
        Map<String, String> settings = new HashMap<>();
        for (int index = 0; index < configs.length; index += 2) {
            settings.put(configs[index], configs[index + 1]);
        }
        admin.createTopics(List.of(new NewTopic(name, partitions, (short) 1).configs(settings))).all().get();
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

    static KafkaProducer<byte[], byte[]> producer(String... pairs) {
        return new KafkaProducer<>(properties(pairs), new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(String... pairs) {
        Properties properties = properties(pairs);
        properties.putIfAbsent("auto.offset.reset", "earliest");
        properties.putIfAbsent("enable.auto.commit", "false");
        return new KafkaConsumer<>(properties, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String text(byte[] bytes) {
        return bytes == null ? null : new String(bytes, StandardCharsets.UTF_8);
    }

    static List<ConsumerRecord<byte[], byte[]>> read(KafkaConsumer<byte[], byte[]> consumer, int count) {
        List<ConsumerRecord<byte[], byte[]>> records = new ArrayList<>();
        long end = System.nanoTime() + 120_000_000_000L;
        while (records.size() < count && System.nanoTime() < end) {
            consumer.poll(Duration.ofMillis(200)).forEach(records::add);
        }
        return records;
    }

    static List<ConsumerRecord<byte[], byte[]>> readAll(String topic, int count, String... pairs) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(pairs)) {
            TopicPartition partition = new TopicPartition(topic, 0);
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            return read(consumer, count);
        }
    }

    static void write(String topic, int count, String... pairs) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer(pairs)) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int number = 0; number < count; number++) {
                sent.add(producer.send(new ProducerRecord<>(topic, 0, bytes("k" + number % 10), bytes("value " + number))));
            }
            for (int number = 0; number < count; number++) {
                RecordMetadata metadata = sent.get(number).get();
                if (metadata.hasOffset()) {
                    same((long) number, metadata.offset());
                }
            }
        }
    }

    static void values(int count, List<ConsumerRecord<byte[], byte[]>> records) {
        same(count, records.size());
        for (int number = 0; number < count; number++) {
            same((long) number, records.get(number).offset());
            same("value " + number, text(records.get(number).value()));
        }
    }

    // ---- producer and consumer

    static void checkEveryCodecIsCarriedInOrder() throws Exception {
        for (String codec : List.of("none", "gzip", "snappy", "lz4", "zstd")) {
            String topic = topic(1);
            write(topic, 5000, "compression.type", codec, "linger.ms", "5");
            values(5000, readAll(topic, 5000));
        }
    }

    static void checkTheTopicsOwnCodecReplacesTheProducers() throws Exception {
        for (String codec : List.of("uncompressed", "gzip", "snappy", "lz4", "zstd")) {
            String topic = topic(1, "compression.type", codec);
            write(topic, 300, "compression.type", codec.equals("lz4") ? "zstd" : "lz4");
            values(300, readAll(topic, 300));
        }
    }

    static void checkAcksZeroOneAndAllWithoutIdempotence() throws Exception {
        for (String acks : List.of("0", "1", "all")) {
            String topic = topic(1);
            write(topic, 1000, "acks", acks, "enable.idempotence", "false");
            values(1000, readAll(topic, 1000));
        }
    }

    static void checkAnIdempotentProducersRecordsStayInOrderWithFiveInFlight() throws Exception {
        String topic = topic(1);
        write(topic, 20000, "enable.idempotence", "true", "batch.size", "1000", "linger.ms", "0");
        values(20000, readAll(topic, 20000));
        DescribeProducersResult.PartitionProducerState state = admin.describeProducers(List.of(new TopicPartition(topic, 0)))
            .partitionResult(new TopicPartition(topic, 0)).get();
        same(1, state.activeProducers().size());
        ProducerState producer = state.activeProducers().get(0);
        same(19999, producer.lastSequence());
        same(0, producer.producerEpoch());
        same(OptionalLong.empty(), producer.currentTransactionStartOffset());
        truth(producer.producerId() >= 0, "a producer id");
        truth(producer.lastTimestamp() > 0, "a timestamp");
    }

    static void checkHeadersNullsAndEmptyValuesAreKept() throws Exception {
        String topic = topic(1);
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            ProducerRecord<byte[], byte[]> record = new ProducerRecord<>(topic, 0, null, null);
            record.headers().add("first", bytes("1")).add("first", bytes("2")).add("none", null).add("empty", new byte[0]);
            producer.send(record).get();
            producer.send(new ProducerRecord<>(topic, 0, new byte[0], new byte[0])).get();
        }
        List<ConsumerRecord<byte[], byte[]>> records = readAll(topic, 2);
        same(2, records.size());
        same(null, records.get(0).key());
        same(null, records.get(0).value());
        same(0, records.get(1).key().length);
        same(0, records.get(1).value().length);
        List<String> headers = new ArrayList<>();
        for (Header header : records.get(0).headers()) {
            headers.add(header.key() + "=" + text(header.value()));
        }
        same(List.of("first=1", "first=2", "none=null", "empty="), headers);
        same(Optional.of(0), records.get(0).leaderEpoch());
    }

    static void checkCreateTimeAndLogAppendTime() throws Exception {
        String created = topic(1);
        String appended = topic(1, "message.timestamp.type", "LogAppendTime");
        long before = System.currentTimeMillis();
        for (String codec : List.of("none", "zstd")) {
            try (KafkaProducer<byte[], byte[]> producer = producer("compression.type", codec)) {
                same(1234567L, producer.send(new ProducerRecord<>(created, 0, 1234567L, null, bytes("a"))).get().timestamp());
                truth(producer.send(new ProducerRecord<>(appended, 0, 1234567L, null, bytes("a"))).get().timestamp() >= before, "the broker's time");
            }
        }
        for (ConsumerRecord<byte[], byte[]> record : readAll(created, 2)) {
            same(1234567L, record.timestamp());
            same(TimestampType.CREATE_TIME, record.timestampType());
        }
        List<ConsumerRecord<byte[], byte[]>> records = readAll(appended, 2);
        same(2, records.size());
        for (ConsumerRecord<byte[], byte[]> record : records) {
            truth(record.timestamp() >= before, "the broker's time");
            same(TimestampType.LOG_APPEND_TIME, record.timestampType());
        }
    }

    static void checkTimestampsOutsideTheTopicsBoundsAreRefused() throws Exception {
        String topic = topic(1, "message.timestamp.before.max.ms", "1200000", "message.timestamp.after.max.ms", "1200000");
        long now = System.currentTimeMillis();
        for (String codec : List.of("none", "gzip")) {
            try (KafkaProducer<byte[], byte[]> producer = producer("compression.type", codec)) {
                refused(InvalidTimestampException.class, () -> producer.send(new ProducerRecord<>(topic, 0, now - 3600000, null, bytes("a"))).get());
                refused(InvalidTimestampException.class, () -> producer.send(new ProducerRecord<>(topic, 0, now + 3600000, null, bytes("a"))).get());
                producer.send(new ProducerRecord<>(topic, 0, now, null, bytes("a"))).get();
            }
        }
        same(2, readAll(topic, 2).size());
    }

    static void checkABigRecordIsCarriedAndATooBigOneRefused() throws Exception {
        String topic = topic(1, "max.message.bytes", "3000000");
        byte[] big = new byte[2_900_000];
        new Random(7).nextBytes(big);
        try (KafkaProducer<byte[], byte[]> producer = producer("max.request.size", "8000000", "buffer.memory", "64000000")) {
            producer.send(new ProducerRecord<>(topic, 0, null, big)).get();
            refused(RecordTooLargeException.class, () -> producer.send(new ProducerRecord<>(topic, 0, null, new byte[3_100_000])).get());
            producer.send(new ProducerRecord<>(topic, 0, null, bytes("after"))).get();
        }
        List<ConsumerRecord<byte[], byte[]>> records = readAll(topic, 2, "max.partition.fetch.bytes", "1000", "fetch.max.bytes", "1000");
        same(2, records.size());
        truth(Arrays.equals(big, records.get(0).value()), "the big record comes back whole, whatever the fetch limits");
        same("after", text(records.get(1).value()));
    }

    static void checkACompactedTopicRefusesRecordsWithoutKey() throws Exception {
        String topic = topic(1, "cleanup.policy", "compact");
        for (String codec : List.of("none", "lz4")) {
            try (KafkaProducer<byte[], byte[]> producer = producer("compression.type", codec)) {
                refused(InvalidRecordException.class, () -> producer.send(new ProducerRecord<>(topic, 0, null, bytes("a"))).get());
                producer.send(new ProducerRecord<>(topic, 0, bytes("k"), bytes("a"))).get();
            }
        }
    }

    static void checkMinInsyncReplicasCountsNoMoreReplicasThanThereAre() throws Exception {
        String topic = topic(1, "min.insync.replicas", "2");
        write(topic, 10, "acks", "all");
    }

    static void checkAutomaticCreationOnFirstUse() throws Exception {
        String topic = "java-auto-" + ProcessHandle.current().pid();
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            same(0L, producer.send(new ProducerRecord<>(topic, bytes("a"))).get().offset());
            same(1, producer.partitionsFor(topic).size());
        }
        refused(UnknownTopicOrPartitionException.class, () -> admin.describeTopics(List.of(topic + "-none")).allTopicNames().get());
    }

    static void checkConsumerSeeksPausesAndFindsOffsetsByTime() throws Exception {
        String topic = topic(1, "segment.bytes", "1048576", "index.interval.bytes", "1000");
        long start = System.currentTimeMillis() - 1_000_000;
        try (KafkaProducer<byte[], byte[]> producer = producer("linger.ms", "5", "compression.type", "lz4")) {
            for (int number = 0; number < 3000; number++) {
                producer.send(new ProducerRecord<>(topic, 0, start + number * 10L, null, bytes("value " + number)));
            }
        }
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            same(Map.of(partition, 0L), consumer.beginningOffsets(List.of(partition)));
            same(Map.of(partition, 3000L), consumer.endOffsets(List.of(partition)));
            for (int number : List.of(0, 1, 15, 1499, 2998, 2999)) {
                OffsetAndTimestamp found = consumer.offsetsForTimes(Map.of(partition, start + number * 10L - 5)).get(partition);
                same((long) number, found.offset());
                same(start + number * 10L, found.timestamp());
                same(Optional.of(0), found.leaderEpoch());
            }
            same(null, consumer.offsetsForTimes(Map.of(partition, start + 3000 * 10L)).get(partition));
            consumer.assign(List.of(partition));
            consumer.seek(partition, 1234);
            same(1234L, read(consumer, 1).get(0).offset());
            consumer.seekToEnd(List.of(partition));
            same(3000L, consumer.position(partition));
            same(0, consumer.poll(Duration.ofMillis(100)).count());
            consumer.seek(partition, 2990);
            consumer.pause(List.of(partition));
            same(0, consumer.poll(Duration.ofMillis(100)).count());
            consumer.resume(List.of(partition));
            same(10, read(consumer, 10).size());
            same(OptionalLong.of(0), consumer.currentLag(partition));
        }
    }

    static void checkAnOffsetOutOfRangeIsToldOrReset() throws Exception {
        String topic = topic(1);
        write(topic, 10);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("auto.offset.reset", "none")) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 99);
            refused(org.apache.kafka.clients.consumer.OffsetOutOfRangeException.class, () -> consumer.poll(Duration.ofSeconds(120)));
        }
        try (KafkaConsumer<byte[], byte[]> consumer = consumer()) {
            consumer.assign(List.of(partition));
            consumer.seek(partition, 99);
            same(0L, read(consumer, 10).get(0).offset());
        }
    }

    static void checkSmallFetchesAndLongPollsMeetAllRecords() throws Exception {
        String topic = topic(6);
        Set<String> sent = new TreeSet<>();
        try (KafkaProducer<byte[], byte[]> producer = producer("batch.size", "2000")) {
            for (int number = 0; number < 3000; number++) {
                producer.send(new ProducerRecord<>(topic, number % 6, null, bytes("value " + number)));
                sent.add("value " + number);
            }
        }
        List<TopicPartition> partitions = new ArrayList<>();
        for (int number = 0; number < 6; number++) {
            partitions.add(new TopicPartition(topic, number));
        }
        for (String[] settings : new String[][] {
            {"fetch.max.bytes", "3000", "max.partition.fetch.bytes", "1500"}, {"fetch.min.bytes", "100000", "fetch.max.wait.ms", "200"}, {"isolation.level", "read_committed"}
        }) {
            try (KafkaConsumer<byte[], byte[]> consumer = consumer(settings)) {
                consumer.assign(partitions);
                Set<String> got = read(consumer, 3000).stream().map(record -> text(record.value())).collect(Collectors.toCollection(TreeSet::new));
                same(sent, got);
            }
        }
    }

    static void checkALongPollWakesWhenRecordsArrive() throws Exception {
        String topic = topic(1);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaConsumer<byte[], byte[]> consumer = consumer("fetch.max.wait.ms", "110000", "request.timeout.ms", "300000"); KafkaProducer<byte[], byte[]> producer = producer()) {
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            consumer.poll(Duration.ofMillis(500));
            producer.send(new ProducerRecord<>(topic, 0, null, bytes("a"))).get();
            long start = System.nanoTime();
            same(1, read(consumer, 1).size());
            truth(System.nanoTime() - start < 60_000_000_000L, "the waiting fetch is answered before its time");
        }
    }

    static void checkClientInstanceIdsAreGiven() throws Exception {
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "java-all"), List.of(
            new AlterConfigOp(new ConfigEntry("metrics", "*"), AlterConfigOp.OpType.SET),
            new AlterConfigOp(new ConfigEntry("interval.ms", "200"), AlterConfigOp.OpType.SET)))).all().get();
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            truth(!Uuid.ZERO_UUID.equals(producer.clientInstanceId(Duration.ofSeconds(60))), "an id");
        } catch (UnsupportedVersionException brokerWithoutTelemetryReceiver) {
            // Kafka offers telemetry only when a receiver plugin is configured
        } catch (IllegalStateException telemetryDisabled) {
            // the same, told differently
        }
        admin.incrementalAlterConfigs(Map.of(new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "java-all"), List.of(
            new AlterConfigOp(new ConfigEntry("metrics", ""), AlterConfigOp.OpType.DELETE),
            new AlterConfigOp(new ConfigEntry("interval.ms", ""), AlterConfigOp.OpType.DELETE)))).all().get();
    }

    // ---- admin

    static void checkTopicsAreCreatedDescribedListedAndDeleted() throws Exception {
        String name = "java-topic-" + ProcessHandle.current().pid();
        CreateTopicsResult dry = admin.createTopics(List.of(new NewTopic(name, 2, (short) 1)), new CreateTopicsOptions().validateOnly(true));
        dry.all().get();
        truth(!admin.listTopics().names().get().contains(name), "validateOnly creates nothing");
        CreateTopicsResult created = admin.createTopics(List.of(
            new NewTopic(name, Optional.empty(), Optional.empty()).configs(Map.of("retention.ms", "99999")), new NewTopic(name + "-b", Map.of(0, List.of(1), 1, List.of(1)))));
        created.all().get();
        same(1, created.numPartitions(name).get());
        same(1, created.replicationFactor(name).get());
        same(2, created.numPartitions(name + "-b").get());
        same("99999", created.config(name).get().get("retention.ms").value());
        Uuid id = created.topicId(name).get();
        TopicDescription described = admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id);
        same(name, described.name());
        same(List.of(1), described.partitions().get(0).replicas().stream().map(Node::id).collect(Collectors.toList()));
        same(1, described.partitions().get(0).leader().id());
        same(id, admin.listTopics().namesToListings().get().get(name).topicId());
        refused(TopicExistsException.class, () -> admin.createTopics(List.of(new NewTopic(name, 1, (short) 1))).all().get());
        refused(InvalidPartitionsException.class, () -> admin.createTopics(List.of(new NewTopic(name + "c", 0, (short) 1))).all().get());
        refused(InvalidReplicationFactorException.class, () -> admin.createTopics(List.of(new NewTopic(name + "c", 1, (short) 2))).all().get());
        refused(InvalidTopicException.class, () -> admin.createTopics(List.of(new NewTopic("a/b", 1, (short) 1))).all().get());
        refused(InvalidConfigurationException.class, () -> admin.createTopics(List.of(new NewTopic(name + "c", 1, (short) 1).configs(Map.of("no.such", "1")))).all().get());
        refused(InvalidReplicaAssignmentException.class, () -> admin.createTopics(List.of(new NewTopic(name + "c", Map.of(0, List.of(9))))).all().get());
        admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
        admin.deleteTopics(List.of(name + "-b")).all().get();
        refused(UnknownTopicOrPartitionException.class, () -> admin.deleteTopics(List.of(name)).all().get());
        refused(UnknownTopicIdException.class, () -> admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get());
    }

    static void checkATopicMadeAgainIsEmptyAndHasAnotherId() throws Exception {
        String topic = topic(1);
        Uuid before = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId();
        write(topic, 10);
        admin.deleteTopics(List.of(topic)).all().get();
        for (int attempt = 0;; attempt++) {
            try {
                admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
                break;
            } catch (ExecutionException busy) {
                truth(attempt < 1_200 && busy.getCause() instanceof TopicExistsException, busy.toString());
                Thread.sleep(100);
            }
        }
        eventually(() -> admin.listTopics().names().get().contains(topic), "it is listed again");
        Uuid after = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).topicId();
        truth(!before.equals(after), "another id");
        write(topic, 5);
        values(5, readAll(topic, 5));
    }

    static void checkPartitionsGrow() throws Exception {
        String topic = topic(1);
        write(topic, 10);
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
        same(3, admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic).partitions().size());
        admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4, List.of(List.of(1))))).all().get();
        refused(InvalidPartitionsException.class, () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(2))).all().get());
        refused(InvalidPartitionsException.class, () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(4))).all().get());
        refused(UnknownTopicOrPartitionException.class, () -> admin.createPartitions(Map.of(topic + "x", NewPartitions.increaseTo(4))).all().get());
        refused(InvalidReplicaAssignmentException.class, () -> admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(5, List.of(List.of(8))))).all().get());
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            same(0L, producer.send(new ProducerRecord<>(topic, 3, null, bytes("a"))).get().offset());
        }
        values(10, readAll(topic, 10));
    }

    static void checkEveryKindOfOffsetIsListed() throws Exception {
        String topic = topic(1);
        TopicPartition partition = new TopicPartition(topic, 0);
        long start = System.currentTimeMillis() - 100_000;
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            for (long timestamp : new long[] {start, start + 9, start + 5}) {
                producer.send(new ProducerRecord<>(topic, 0, timestamp, null, bytes("a"))).get();
            }
        }
        Map<OffsetSpec, List<Long>> expected = new HashMap<>();
        expected.put(OffsetSpec.earliest(), List.of(0L, -1L));
        expected.put(OffsetSpec.latest(), List.of(3L, -1L));
        expected.put(OffsetSpec.maxTimestamp(), List.of(1L, start + 9));
        expected.put(OffsetSpec.forTimestamp(start + 1), List.of(1L, start + 9));
        expected.put(OffsetSpec.forTimestamp(start + 10), List.of(-1L, -1L));
        expected.put(OffsetSpec.earliestLocal(), List.of(0L, -1L));
        expected.put(OffsetSpec.latestTiered(), List.of(-1L, -1L));
        for (Map.Entry<OffsetSpec, List<Long>> entry : expected.entrySet()) {
            for (IsolationLevel level : IsolationLevel.values()) {
                ListOffsetsResult.ListOffsetsResultInfo info = admin.listOffsets(Map.of(partition, entry.getKey()), new ListOffsetsOptions(level)).partitionResult(partition).get();
                same(entry.getValue(), List.of(info.offset(), info.timestamp()));
            }
        }
    }

    static void checkRecordsAreDeletedFromTheFront() throws Exception {
        String topic = topic(1);
        TopicPartition partition = new TopicPartition(topic, 0);
        write(topic, 100);
        same(40L, admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(40))).lowWatermarks().get(partition).get().lowWatermark());
        same(40L, admin.listOffsets(Map.of(partition, OffsetSpec.earliest())).partitionResult(partition).get().offset());
        same(60, readAll(topic, 60).size());
        same(40L, readAll(topic, 60).get(0).offset());
        same(40L, admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(10))).lowWatermarks().get(partition).get().lowWatermark());
        refused(org.apache.kafka.common.errors.OffsetOutOfRangeException.class, () -> admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(101))).all().get());
        same(100L, admin.deleteRecords(Map.of(partition, RecordsToDelete.beforeOffset(-1))).lowWatermarks().get(partition).get().lowWatermark());
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            same(100L, producer.send(new ProducerRecord<>(topic, 0, null, bytes("a"))).get().offset());
        }
    }

    static void checkConfigsAreDescribedWithTypeSourceAndText() throws Exception {
        String topic = topic(1, "retention.ms", "12345");
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        DescribeConfigsOptions options = new DescribeConfigsOptions().includeSynonyms(true).includeDocumentation(true);
        Config config = admin.describeConfigs(List.of(resource), options).all().get().get(resource);
        ConfigEntry retention = config.get("retention.ms");
        same(List.of("12345", ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, ConfigEntry.ConfigType.LONG, false, false),
            List.of(retention.value(), retention.source(), retention.type(), retention.isReadOnly(), retention.isDefault()));
        for (ConfigEntry entry : config.entries()) {
            truth(entry.documentation() != null && entry.documentation().length() > 10, "a text for " + entry.name());
            truth(entry.type() != ConfigEntry.ConfigType.UNKNOWN, "a type for " + entry.name());
        }
        same(ConfigEntry.ConfigType.LIST, config.get("cleanup.policy").type());
        same(ConfigEntry.ConfigType.DOUBLE, config.get("min.cleanable.dirty.ratio").type());
        same(ConfigEntry.ConfigType.BOOLEAN, config.get("preallocate").type());
        same(ConfigEntry.ConfigType.INT, config.get("segment.bytes").type());
        same(ConfigEntry.ConfigType.STRING, config.get("compression.type").type());
        ConfigResource broker = new ConfigResource(ConfigResource.Type.BROKER, "1");
        Config brokers = admin.describeConfigs(List.of(broker), options).all().get().get(broker);
        same(true, brokers.get("listeners").value().contains(bootstrap));
        same(true, brokers.get("log.dirs").isReadOnly());
        same(false, brokers.get("log.retention.ms").isReadOnly());
        refused(UnknownTopicOrPartitionException.class, () -> admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.TOPIC, topic + "x"))).all().get());
        refused(org.apache.kafka.common.errors.ApiException.class, () -> admin.describeConfigs(List.of(new ConfigResource(ConfigResource.Type.BROKER, "77")), new DescribeConfigsOptions().timeoutMs(2000)).all().get());
    }

    static AlterConfigOp op(AlterConfigOp.OpType type, String name, String value) {
        return new AlterConfigOp(new ConfigEntry(name, value), type);
    }

    static void checkConfigsAreAlteredStepByStep() throws Exception {
        String topic = topic(1);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(op(AlterConfigOp.OpType.SET, "retention.ms", "777"), op(AlterConfigOp.OpType.APPEND, "cleanup.policy", "compact")))).all().get();
        Config config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        same("777", config.get("retention.ms").value());
        same(Set.of("delete", "compact"), Set.of(config.get("cleanup.policy").value().split(",")));
        admin.incrementalAlterConfigs(Map.of(resource, List.of(op(AlterConfigOp.OpType.DELETE, "retention.ms", null), op(AlterConfigOp.OpType.SUBTRACT, "cleanup.policy", "compact")))).all().get();
        config = admin.describeConfigs(List.of(resource)).all().get().get(resource);
        same("604800000", config.get("retention.ms").value());
        same(ConfigEntry.ConfigSource.DEFAULT_CONFIG, config.get("retention.ms").source());
        same("delete", config.get("cleanup.policy").value());
        admin.incrementalAlterConfigs(Map.of(resource, List.of(op(AlterConfigOp.OpType.SET, "retention.ms", "1"))), new AlterConfigsOptions().validateOnly(true)).all().get();
        same("604800000", admin.describeConfigs(List.of(resource)).all().get().get(resource).get("retention.ms").value());
        refused(InvalidConfigurationException.class, () -> admin.incrementalAlterConfigs(Map.of(resource, List.of(op(AlterConfigOp.OpType.SET, "retention.ms", "x")))).all().get());
        refused(InvalidConfigurationException.class, () -> admin.incrementalAlterConfigs(Map.of(resource, List.of(op(AlterConfigOp.OpType.SET, "segment.bytes", "1")))).all().get());
        refused(InvalidConfigurationException.class, () -> admin.incrementalAlterConfigs(Map.of(resource, List.of(op(AlterConfigOp.OpType.APPEND, "retention.ms", "1")))).all().get());
    }

    static void checkANewMaximumMessageSizeCountsAtOnce() throws Exception {
        String topic = topic(1);
        ConfigResource resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
        admin.incrementalAlterConfigs(Map.of(resource, List.of(op(AlterConfigOp.OpType.SET, "max.message.bytes", "500")))).all().get();
        Thread.sleep(300);
        try (KafkaProducer<byte[], byte[]> producer = producer()) {
            refused(RecordTooLargeException.class, () -> producer.send(new ProducerRecord<>(topic, 0, null, new byte[600])).get());
            producer.send(new ProducerRecord<>(topic, 0, null, new byte[300])).get();
        }
    }

    static void checkLogDirsTellSizesAndSpace() throws Exception {
        String topic = topic(2);
        write(topic, 100);
        Map<String, LogDirDescription> dirs = admin.describeLogDirs(List.of(1)).allDescriptions().get().get(1);
        same(1, dirs.size());
        LogDirDescription dir = dirs.values().iterator().next();
        same(null, dir.error());
        truth(dir.totalBytes().getAsLong() > 0 && dir.usableBytes().getAsLong() > 0, "the volume's space");
        truth(dir.replicaInfos().get(new TopicPartition(topic, 0)).size() > 1000, "the log's size");
        same(0L, dir.replicaInfos().get(new TopicPartition(topic, 1)).size());
    }

    static void checkClusterQuorumAndFeaturesAreDescribed() throws Exception {
        DescribeClusterResult cluster = admin.describeCluster(new DescribeClusterOptions().includeAuthorizedOperations(true));
        same(1, cluster.nodes().get().size());
        same(1, cluster.controller().get().id());
        same(22, cluster.clusterId().get().length());
        QuorumInfo quorum = admin.describeMetadataQuorum().quorumInfo().get();
        same(1, quorum.leaderId());
        same(1, quorum.voters().size());
        truth(quorum.highWatermark() > 0 && quorum.voters().get(0).logEndOffset() >= quorum.highWatermark(), "the metadata log's end");
        FeatureMetadata features = admin.describeFeatures().featureMetadata().get();
        same((short) 30, features.finalizedFeatures().get("metadata.version").maxVersionLevel());
        truth(features.supportedFeatures().keySet().containsAll(List.of("group.version", "kraft.version", "transaction.version")), features.toString());
        truth(features.finalizedFeaturesEpoch().get() >= 0, "an epoch");
        refused(org.apache.kafka.common.errors.ApiException.class, () -> admin.updateFeatures(Map.of("metadata.version", new FeatureUpdate((short) 9999, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions()).all().get());
        admin.updateFeatures(Map.of("transaction.version", new FeatureUpdate((short) 2, FeatureUpdate.UpgradeType.UPGRADE)), new UpdateFeaturesOptions().validateOnly(true)).all().get();
    }

    static void checkQuotasAreKeptAndFiltered() throws Exception {
        Map<String, String> names = new HashMap<>(Map.of(ClientQuotaEntity.USER, "java-user"));
        ClientQuotaEntity user = new ClientQuotaEntity(names);
        Map<String, String> defaults = new HashMap<>();
        defaults.put(ClientQuotaEntity.USER, null);
        ClientQuotaEntity defaultUser = new ClientQuotaEntity(defaults);
        admin.alterClientQuotas(List.of(
            new ClientQuotaAlteration(user, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 5000.0), new ClientQuotaAlteration.Op("request_percentage", 2000.0))),
            new ClientQuotaAlteration(defaultUser, List.of(new ClientQuotaAlteration.Op("consumer_byte_rate", 1e9))))).all().get();
        same(Map.of(user, Map.of("producer_byte_rate", 5000.0, "request_percentage", 2000.0)),
            admin.describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntity(ClientQuotaEntity.USER, "java-user")))).entities().get());
        same(Map.of(defaultUser, Map.of("consumer_byte_rate", 1e9)),
            admin.describeClientQuotas(ClientQuotaFilter.contains(List.of(ClientQuotaFilterComponent.ofDefaultEntity(ClientQuotaEntity.USER)))).entities().get());
        truth(admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get().size() >= 2, "all of them");
        admin.alterClientQuotas(List.of(
            new ClientQuotaAlteration(user, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null), new ClientQuotaAlteration.Op("request_percentage", null))),
            new ClientQuotaAlteration(defaultUser, List.of(new ClientQuotaAlteration.Op("consumer_byte_rate", null))))).all().get();
        Set<ClientQuotaEntity> left = admin.describeClientQuotas(ClientQuotaFilter.containsOnly(List.of(ClientQuotaFilterComponent.ofEntityType(ClientQuotaEntity.USER)))).entities().get().keySet();
        truth(!left.contains(user) && !left.contains(defaultUser), "both are gone");
        refused(InvalidRequestException.class, () -> admin.alterClientQuotas(List.of(new ClientQuotaAlteration(user, List.of(new ClientQuotaAlteration.Op("no_such_rate", 1.0))))).all().get());
    }

    static void checkAProducerAboveItsQuotaIsThrottled() throws Exception {
        String topic = topic(1);
        ClientQuotaEntity client = new ClientQuotaEntity(Map.of(ClientQuotaEntity.CLIENT_ID, "java-throttled"));
        admin.alterClientQuotas(List.of(new ClientQuotaAlteration(client, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", 50000.0))))).all().get();
        Thread.sleep(300);
        try (KafkaProducer<byte[], byte[]> producer = producer("client.id", "java-throttled", "batch.size", "20000")) {
            for (int number = 0; number < 60; number++) {
                producer.send(new ProducerRecord<>(topic, 0, null, new byte[10000]));
            }
            producer.flush();
            double throttled = producer.metrics().values().stream().filter(metric -> metric.metricName().name().equals("produce-throttle-time-max"))
                .mapToDouble(metric -> (Double) metric.metricValue()).max().orElse(0);
            truth(throttled > 0, "produce-throttle-time-max is " + throttled);
        } finally {
            admin.alterClientQuotas(List.of(new ClientQuotaAlteration(client, List.of(new ClientQuotaAlteration.Op("producer_byte_rate", null))))).all().get();
        }
    }

    static void checkConfigResourcesAreListed() throws Exception {
        ConfigResource subscription = new ConfigResource(ConfigResource.Type.CLIENT_METRICS, "java-sub");
        admin.incrementalAlterConfigs(Map.of(subscription, List.of(op(AlterConfigOp.OpType.SET, "interval.ms", "5000")))).all().get();
        String topic = topic(1);
        truth(admin.listConfigResources(Set.of(ConfigResource.Type.CLIENT_METRICS), new ListConfigResourcesOptions()).all().get().contains(subscription), "the subscription");
        Collection<ConfigResource> all = admin.listConfigResources().all().get();
        truth(all.contains(new ConfigResource(ConfigResource.Type.TOPIC, topic)) && all.contains(new ConfigResource(ConfigResource.Type.BROKER, "1")), all.toString());
        admin.incrementalAlterConfigs(Map.of(subscription, List.of(op(AlterConfigOp.OpType.DELETE, "interval.ms", null)))).all().get();
    }

    static void checkAThousandTopicsAreMadeAndDeletedInOneCall() throws Exception {
        List<NewTopic> topics = new ArrayList<>();
        for (int number = 0; number < 1000; number++) {
            topics.add(new NewTopic("java-many-" + number, 1, (short) 1));
        }
        admin.createTopics(topics).all().get();
        Set<String> names = topics.stream().map(NewTopic::name).collect(Collectors.toSet());
        eventually(() -> admin.listTopics().names().get().containsAll(names), "all of them are listed");
        same(1000, admin.describeTopics(names).allTopicNames().get().size());
        admin.deleteTopics(names).all().get();
        eventually(() -> Collections.disjoint(admin.listTopics().names().get(), names), "all of them are gone");
    }

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        admin = Admin.create(properties("default.api.timeout.ms", "120000", "request.timeout.ms", "60000"));
        Map<String, Method> checks = new TreeMap<>();
        for (Method method : JavaClients.class.getDeclaredMethods()) {
            if (method.getName().startsWith("check") && (arguments.length < 2 || method.getName().equals(arguments[1]))) {
                checks.put(method.getName(), method);
            }
        }
        for (Map.Entry<String, Method> check : checks.entrySet()) {
            long start = System.nanoTime();
            try {
                check.getValue().invoke(null);
                System.out.println("ok " + check.getKey() + " " + (System.nanoTime() - start) / 1_000_000 + " ms");
            } catch (InvocationTargetException failure) {
                Throwable cause = failure.getCause();
                String where = Arrays.stream(cause.getStackTrace()).filter(frame -> frame.getClassName().startsWith("JavaClients"))
                    .map(frame -> frame.getMethodName() + ":" + frame.getLineNumber()).limit(6).collect(Collectors.joining(" < "));
                System.out.println("failed " + check.getKey() + ": " + (cause.toString().substring(0, Math.min(1000, cause.toString().length())) + " at " + where).replace('\n', ' '));
            }
        }
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
