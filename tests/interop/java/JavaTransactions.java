import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

/**
 * Java's transactional producer, read_committed consumers and the admin client's view of transactions: every method
 * called check... runs by itself and prints one line, "ok NAME" or "failed NAME: why".
 * Arguments: the server, how many checks run at once, a regular expression of names, and the transaction.version to set.
 */
public class JavaTransactions {
    static String bootstrap;
    static Admin admin;
    static int transactionVersion = 2;
    static final AtomicInteger numbers = new AtomicInteger();
    static final long PATIENCE_SECONDS = 120;

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
        void run() throws Exception;
    }

    /** The action fails with one of these. */
    @SafeVarargs
    static void refused(Action action, Class<? extends Throwable>... by) throws Exception {
        try {
            action.run();
        } catch (ExecutionException | KafkaException failure) {
            for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
                for (Class<? extends Throwable> one : by) {
                    if (one.isInstance(cause)) {
                        return;
                    }
                }
            }
            throw new AssertionError("refused, but with " + failure + " because of " + failure.getCause());
        }
        throw new AssertionError("expected " + by[0].getSimpleName() + " but it succeeded");
    }

    interface Claim {
        boolean holds() throws Exception;
    }

    static void eventually(Claim claim, String what) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(PATIENCE_SECONDS);
        while (!claim.holds()) {
            truth(System.nanoTime() < end, what);
            Thread.sleep(20);
        }
    }

    static String name(String of) {
        return of + "-" + ProcessHandle.current().pid() + "-" + numbers.incrementAndGet();
    }

    static String topic(int partitions) throws Exception {
        String name = name("java-transactions");
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

    static KafkaProducer<String, String> producer(String transactionalId, String... pairs) {
        Properties properties = properties(pairs);
        properties.put("transactional.id", transactionalId);
        properties.putIfAbsent("max.block.ms", "30000");
        KafkaProducer<String, String> producer = new KafkaProducer<>(properties, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    static KafkaConsumer<String, String> consumer(String group, String isolation) {
        return new KafkaConsumer<>(
            properties("group.id", group, "isolation.level", isolation, "auto.offset.reset", "earliest", "enable.auto.commit", "false"),
            new StringDeserializer(), new StringDeserializer());
    }

    static void send(Producer<String, String> producer, String topic, int partition, String... values) {
        for (String value : values) {
            producer.send(new ProducerRecord<>(topic, partition, null, value));
        }
    }

    static List<TopicPartition> partitions(String topic, int count) {
        List<TopicPartition> found = new ArrayList<>();
        for (int partition = 0; partition < count; partition++) {
            found.add(new TopicPartition(topic, partition));
        }
        return found;
    }

    static Map<TopicPartition, Long> ends(String topic, int count, IsolationLevel isolation) throws Exception {
        Map<TopicPartition, Long> ends = new java.util.HashMap<>();
        Map<TopicPartition, OffsetSpec> asked = new java.util.HashMap<>();
        partitions(topic, count).forEach(partition -> asked.put(partition, OffsetSpec.latest()));
        ListOffsetsResult result = admin.listOffsets(asked, new ListOffsetsOptions(isolation));
        for (TopicPartition partition : asked.keySet()) {
            ends.put(partition, result.partitionResult(partition).get().offset());
        }
        return ends;
    }

    /** All values up to the end of what this isolation may see. */
    static Set<String> read(String topic, int count, String isolation) throws Exception {
        Set<String> values = new TreeSet<>();
        IsolationLevel level = isolation.equals("read_committed") ? IsolationLevel.READ_COMMITTED : IsolationLevel.READ_UNCOMMITTED;
        Map<TopicPartition, Long> ends = ends(topic, count, level);
        try (KafkaConsumer<String, String> consumer = consumer(name("reader"), isolation)) {
            consumer.assign(partitions(topic, count));
            consumer.seekToBeginning(partitions(topic, count));
            eventually(() -> {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> truth(values.add(record.value()), "twice: " + record.value()));
                return ends.entrySet().stream().allMatch(end -> consumer.position(end.getKey()) >= end.getValue());
            }, "read to the end");
        }
        return values;
    }

    static Set<String> committed(String topic, int count) throws Exception {
        return read(topic, count, "read_committed");
    }

    static TransactionDescription describe(String transactionalId) throws Exception {
        return admin.describeTransactions(List.of(transactionalId)).description(transactionalId).get();
    }

    static void stateBecomes(String transactionalId, TransactionState state) throws Exception {
        eventually(() -> describe(transactionalId).state() == state, "the transaction becomes " + state);
    }

    // ---- outcomes

    static void checkCommitAndAbortOverSeveralPartitions() throws Exception {
        String topic = topic(3);
        try (KafkaProducer<String, String> producer = producer(name("tx"))) {
            for (int round = 0; round < 10; round++) {
                producer.beginTransaction();
                for (int partition = 0; partition < 3; partition++) {
                    send(producer, topic, partition, round + "-" + partition + "-a", round + "-" + partition + "-b");
                }
                producer.flush();
                if (round % 3 == 2) {
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
        Set<String> seen = committed(topic, 3);
        same(42, seen.size());
        truth(seen.stream().noneMatch(value -> value.startsWith("2-") || value.startsWith("5-") || value.startsWith("8-")), "aborted values are seen: " + seen);
        same(60, read(topic, 3, "read_uncommitted").size());
    }

    static void checkReadCommittedDoesNotSeeAnOpenTransaction() throws Exception {
        String topic = topic(1);
        try (KafkaProducer<String, String> producer = producer(name("tx"))) {
            producer.beginTransaction();
            send(producer, topic, 0, "hidden");
            producer.flush();
            same(Set.of(), committed(topic, 1));
            same(Set.of("hidden"), read(topic, 1, "read_uncommitted"));
            same(0L, ends(topic, 1, IsolationLevel.READ_COMMITTED).values().iterator().next());
            same(1L, ends(topic, 1, IsolationLevel.READ_UNCOMMITTED).values().iterator().next());
            producer.commitTransaction();
            eventually(() -> committed(topic, 1).equals(Set.of("hidden")), "the committed value is seen");
        }
    }

    static void checkAWaitingReaderIsWokenByTheCommit() throws Exception {
        String topic = topic(1);
        try (KafkaProducer<String, String> producer = producer(name("tx")); KafkaConsumer<String, String> consumer = consumer(name("reader"), "read_committed")) {
            consumer.assign(partitions(topic, 1));
            producer.beginTransaction();
            send(producer, topic, 0, "one", "two");
            producer.flush();
            same(0, consumer.poll(Duration.ofMillis(700)).count());
            producer.commitTransaction();
            AtomicInteger seen = new AtomicInteger();
            eventually(() -> seen.addAndGet(consumer.poll(Duration.ofSeconds(5)).count()) >= 2, "the reader sees the commit");
        }
    }

    static void checkTwoTransactionsInOnePartitionEndInAnyOrder() throws Exception {
        String topic = topic(1);
        try (KafkaProducer<String, String> first = producer(name("tx")); KafkaProducer<String, String> second = producer(name("tx"))) {
            first.beginTransaction();
            second.beginTransaction();
            send(first, topic, 0, "first-1");
            first.flush();
            send(second, topic, 0, "second-1");
            second.flush();
            send(first, topic, 0, "first-2");
            first.flush();
            second.commitTransaction();
            same(Set.of(), committed(topic, 1));
            first.abortTransaction();
            eventually(() -> committed(topic, 1).equals(Set.of("second-1")), "only the second transaction is seen");
        }
    }

    static void checkEmptyTransactionsMayBeCommittedAndAborted() throws Exception {
        String topic = topic(1);
        try (KafkaProducer<String, String> producer = producer(name("tx"))) {
            for (int round = 0; round < 3; round++) {
                producer.beginTransaction();
                producer.commitTransaction();
                producer.beginTransaction();
                producer.abortTransaction();
            }
            producer.beginTransaction();
            send(producer, topic, 0, "after");
            producer.commitTransaction();
        }
        same(Set.of("after"), committed(topic, 1));
    }

    static void checkManyShortTransactions() throws Exception {
        String topic = topic(2);
        String id = name("tx");
        try (KafkaProducer<String, String> producer = producer(id)) {
            for (int round = 0; round < 200; round++) {
                producer.beginTransaction();
                send(producer, topic, round % 2, "value " + round);
                // Without it once in some 20,000 rounds, or sooner on a busy machine, the I/O thread looks for unsent
                // batches before this record is added and takes the commit after it: EndTxn comes first, and every
                // broker, Apache Kafka too, refuses it with INVALID_TXN_STATE.
                producer.flush();
                producer.commitTransaction();
            }
            stateBecomes(id, TransactionState.COMPLETE_COMMIT);
            same(transactionVersion >= 2 ? 200 : 0, describe(id).producerEpoch());
        }
        same(200, committed(topic, 2).size());
    }

    static void checkABigTransaction() throws Exception {
        String topic = topic(4);
        try (KafkaProducer<String, String> producer = producer(name("tx"), "linger.ms", "5", "batch.size", "4000", "compression.type", "lz4")) {
            for (boolean commits : new boolean[] {false, true}) {
                producer.beginTransaction();
                for (int number = 0; number < 5000; number++) {
                    send(producer, topic, number % 4, commits + "-" + number);
                }
                if (commits) {
                    producer.commitTransaction();
                } else {
                    producer.flush();
                    producer.abortTransaction();
                }
            }
        }
        Set<String> seen = committed(topic, 4);
        same(5000, seen.size());
        truth(seen.stream().allMatch(value -> value.startsWith("true")), "aborted values are seen");
    }

    // ---- offsets of groups

    static void checkOffsetsOfAGroupAreCommittedWithTheTransaction() throws Exception {
        String source = topic(1);
        String sink = topic(1);
        String group = name("group");
        TopicPartition from = new TopicPartition(source, 0);
        try (KafkaProducer<String, String> producer = producer(name("tx"))) {
            producer.beginTransaction();
            for (int number = 0; number < 20; number++) {
                send(producer, source, 0, "in " + number);
            }
            producer.commitTransaction();
        }
        int aborted = 0;
        try (KafkaProducer<String, String> producer = producer(name("tx")); KafkaConsumer<String, String> consumer = consumer(group, "read_committed")) {
            consumer.subscribe(List.of(source));
            AtomicInteger done = new AtomicInteger();
            while (done.get() < 20) {
                ConsumerRecords<String, String> records = consumer.poll(Duration.ofSeconds(2));
                for (ConsumerRecord<String, String> record : records) {
                    producer.beginTransaction();
                    send(producer, sink, 0, "out " + record.value());
                    producer.sendOffsetsToTransaction(Map.of(from, new OffsetAndMetadata(record.offset() + 1)), consumer.groupMetadata());
                    if (aborted < 3 && record.offset() % 5 == 4) {
                        producer.abortTransaction();
                        aborted++;
                        consumer.seek(from, record.offset());
                        break;
                    }
                    producer.commitTransaction();
                    done.incrementAndGet();
                }
            }
            eventually(() -> admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(from).offset() == 20, "the last offset is committed");
        }
        same(20, committed(sink, 1).size());
        same(3, aborted);
    }

    @SuppressWarnings("removal")
    static void checkOffsetsOfAnOpenTransactionAreUnstable() throws Exception {
        String source = topic(1);
        String group = name("group");
        TopicPartition from = new TopicPartition(source, 0);
        try (KafkaProducer<String, String> producer = producer(name("tx"))) {
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(from, new OffsetAndMetadata(7, "text")), new ConsumerGroupMetadata(group));
            same(null, admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(from));
            try (KafkaConsumer<String, String> consumer = consumer(group, "read_committed")) {
                refused(() -> consumer.committed(Set.of(from), Duration.ofMillis(1500)), org.apache.kafka.common.errors.TimeoutException.class);
            }
            producer.commitTransaction();
            eventually(() -> new OffsetAndMetadata(7, "text").equals(admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(from)), "the offset is committed");
            producer.beginTransaction();
            producer.sendOffsetsToTransaction(Map.of(from, new OffsetAndMetadata(9)), new ConsumerGroupMetadata(group));
            producer.abortTransaction();
            same(7L, admin.listConsumerGroupOffsets(group).partitionsToOffsetAndMetadata().get().get(from).offset());
        }
    }

    static void checkAGenerationThatIsOverCommitsNoOffsets() throws Exception {
        String source = topic(1);
        String group = name("group");
        TopicPartition from = new TopicPartition(source, 0);
        try (KafkaProducer<String, String> producer = producer(name("tx")); KafkaConsumer<String, String> consumer = consumer(group, "read_committed")) {
            consumer.subscribe(List.of(source));
            eventually(() -> {
                consumer.poll(Duration.ofMillis(100));
                return !consumer.assignment().isEmpty();
            }, "the consumer gets its partition");
            ConsumerGroupMetadata old = consumer.groupMetadata();
            consumer.unsubscribe();
            producer.beginTransaction();
            refused(() -> {
                producer.sendOffsetsToTransaction(Map.of(from, new OffsetAndMetadata(1)), old);
                producer.commitTransaction();
            }, CommitFailedException.class);
            producer.abortTransaction();
        }
    }

    // ---- fencing

    static void checkANewProducerFencesTheOldOne() throws Exception {
        String topic = topic(1);
        String id = name("tx");
        try (KafkaProducer<String, String> old = producer(id)) {
            old.beginTransaction();
            send(old, topic, 0, "old");
            old.flush();
            try (KafkaProducer<String, String> fresh = producer(id)) {
                same(Set.of(), committed(topic, 1));
                refused(() -> {
                    old.send(new ProducerRecord<>(topic, 0, null, "late")).get();
                    old.commitTransaction();
                }, ProducerFencedException.class, InvalidProducerEpochException.class);
                fresh.beginTransaction();
                send(fresh, topic, 0, "new");
                fresh.commitTransaction();
            }
        }
        eventually(() -> committed(topic, 1).equals(Set.of("new")), "only the new producer's value is seen");
    }

    static void checkTheAdminFencesProducers() throws Exception {
        String topic = topic(1);
        String id = name("tx");
        try (KafkaProducer<String, String> producer = producer(id)) {
            producer.beginTransaction();
            send(producer, topic, 0, "fenced");
            producer.flush();
            admin.fenceProducers(List.of(id)).all().get();
            refused(producer::commitTransaction, ProducerFencedException.class, InvalidProducerEpochException.class);
        }
        same(Set.of(), committed(topic, 1));
    }

    static void checkATransactionThatTakesTooLongIsAborted() throws Exception {
        String topic = topic(1);
        String id = name("tx");
        try (KafkaProducer<String, String> producer = producer(id, "transaction.timeout.ms", "5000")) {
            producer.beginTransaction();
            send(producer, topic, 0, "slow");
            producer.flush();
            stateBecomes(id, TransactionState.COMPLETE_ABORT);
            refused(producer::commitTransaction, ProducerFencedException.class, InvalidProducerEpochException.class, InvalidTxnStateException.class);
        }
        same(Set.of(), committed(topic, 1));
        same(2L, ends(topic, 1, IsolationLevel.READ_COMMITTED).values().iterator().next());
    }

    static void checkATimeoutBeyondTheBrokersLimitIsRefused() throws Exception {
        refused(() -> producer(name("tx"), "transaction.timeout.ms", "900001").close(), KafkaException.class);
    }

    // ---- what administrators see and do

    static void checkTransactionsAreListedAndDescribed() throws Exception {
        String topic = topic(2);
        String id = name("listed");
        try (KafkaProducer<String, String> producer = producer(id, "transaction.timeout.ms", "600000")) {
            producer.beginTransaction();
            send(producer, topic, 0, "a");
            send(producer, topic, 1, "b");
            producer.flush();
            TransactionDescription found = describe(id);
            same(TransactionState.ONGOING, found.state());
            same(600_000L, found.transactionTimeoutMs());
            same(Set.copyOf(partitions(topic, 2)), found.topicPartitions());
            truth(found.transactionStartTimeMs().isPresent(), "there is a start time");
            ListTransactionsOptions open = new ListTransactionsOptions().filterStates(List.of(TransactionState.ONGOING));
            truth(admin.listTransactions(open).all().get().stream().anyMatch(one -> one.transactionalId().equals(id) && one.producerId() == found.producerId()), "the open transaction is listed");
            ListTransactionsOptions done = new ListTransactionsOptions().filterStates(List.of(TransactionState.COMPLETE_COMMIT));
            truth(admin.listTransactions(done).all().get().stream().noneMatch(one -> one.transactionalId().equals(id)), "it is not complete");
            ListTransactionsOptions mine = new ListTransactionsOptions().filterProducerIds(List.of(found.producerId()));
            same(1, admin.listTransactions(mine).all().get().size());
            same(1, admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern(id.substring(0, 5) + ".*" + id.substring(8))).all().get().size());
            same(0, admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern(id.substring(1))).all().get().size());
            truth(admin.listTransactions(new ListTransactionsOptions().filterOnDuration(3_600_000)).all().get().stream().noneMatch(one -> one.transactionalId().equals(id)), "it is younger than an hour");
            refused(() -> admin.listTransactions(new ListTransactionsOptions().filterOnTransactionalIdPattern("(")).all().get(), InvalidRegularExpression.class);
            DescribeProducersResult.PartitionProducerState state = admin.describeProducers(partitions(topic, 1)).all().get().get(new TopicPartition(topic, 0));
            same(1, state.activeProducers().size());
            same(0L, state.activeProducers().get(0).currentTransactionStartOffset().getAsLong());
            producer.commitTransaction();
            stateBecomes(id, TransactionState.COMPLETE_COMMIT);
            same(Set.of(), describe(id).topicPartitions());
        }
        refused(() -> describe(name("nobody")), TransactionalIdNotFoundException.class);
    }

    static void checkTheAdminAbortsAHangingTransaction() throws Exception {
        String topic = topic(1);
        TopicPartition partition = new TopicPartition(topic, 0);
        try (KafkaProducer<String, String> producer = producer(name("tx"))) {
            producer.beginTransaction();
            send(producer, topic, 0, "hangs");
            producer.flush();
            ProducerState state = admin.describeProducers(List.of(partition)).all().get().get(partition).activeProducers().get(0);
            admin.abortTransaction(new AbortTransactionSpec(partition, state.producerId(), (short) state.producerEpoch(), state.coordinatorEpoch().orElse(0))).all().get();
            same(Set.of(), committed(topic, 1));
            same(2L, ends(topic, 1, IsolationLevel.READ_COMMITTED).get(partition));
        }
    }

    static void checkADeletedTopicDoesNotHoldTheTransactionUp() throws Exception {
        String kept = topic(1);
        String deleted = topic(1);
        String id = name("tx");
        try (KafkaProducer<String, String> producer = producer(id)) {
            producer.beginTransaction();
            send(producer, kept, 0, "kept");
            send(producer, deleted, 0, "lost");
            producer.flush();
            admin.deleteTopics(List.of(deleted)).all().get();
            producer.commitTransaction();
            stateBecomes(id, TransactionState.COMPLETE_COMMIT);
        }
        eventually(() -> committed(kept, 1).equals(Set.of("kept")), "what was written to the other topic is seen");
    }

    // ---- running

    public static void main(String[] arguments) throws Exception {
        bootstrap = arguments[0];
        String wanted = arguments.length > 2 ? arguments[2] : "check.*";
        ExecutorService threads = Executors.newFixedThreadPool(Integer.parseInt(arguments[1]));
        try (Admin shared = Admin.create(properties())) {
            admin = shared;
            if (arguments.length > 3) {
                transactionVersion = Integer.parseInt(arguments[3]);
                FeatureUpdate.UpgradeType type = transactionVersion < 2 ? FeatureUpdate.UpgradeType.UNSAFE_DOWNGRADE : FeatureUpdate.UpgradeType.UPGRADE;
                admin.updateFeatures(Map.of("transaction.version", new FeatureUpdate((short) transactionVersion, type)), new UpdateFeaturesOptions()).all().get();
            }
            for (Method method : JavaTransactions.class.getDeclaredMethods()) {
                if (method.getName().matches(wanted)) {
                    threads.submit(() -> run(method));
                }
            }
            threads.shutdown();
            threads.awaitTermination(10, TimeUnit.MINUTES);
        }
        System.exit(0);
    }

    static void run(Method method) {
        String verdict = "ok " + method.getName();
        try {
            method.invoke(null);
        } catch (InvocationTargetException failure) {
            Throwable cause = failure.getCause();
            StackTraceElement[] trace = cause.getStackTrace();
            String where = "";
            for (StackTraceElement element : trace) {
                if (element.getMethodName().contains("heck")) {
                    where = " at line " + element.getLineNumber();
                    break;
                }
            }
            verdict = "failed " + method.getName() + ": " + cause + (cause.getCause() == null ? "" : " because of " + cause.getCause()) + where;
        } catch (Exception failure) {
            verdict = "failed " + method.getName() + ": " + failure;
        }
        synchronized (System.out) {
            System.out.println(verdict.replace('\n', ' '));
        }
    }
}
