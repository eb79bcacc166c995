import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.concurrent.atomic.AtomicBoolean;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Moves records from one topic to another, partition by partition, in transactions that also commit the offsets. Some
 * transactions are aborted on purpose. After any failure it begins anew from the committed offsets.
 * Arguments: the server, the topics, and a name. Ends when its standard input does, and prints how often it did what.
 */
public class TokenMover {
    static final AtomicBoolean stopping = new AtomicBoolean();
    static int commits;
    static int aborts;
    static int failures;

    static Properties properties(String... pairs) {
        Properties properties = new Properties();
        for (int index = 0; index < pairs.length; index += 2) {
            properties.put(pairs[index], pairs[index + 1]);
        }
        return properties;
    }

    static void move(String bootstrap, String from, String to, String name, Random chance) {
        Properties reading = properties(
            "bootstrap.servers", bootstrap, "group.id", name, "isolation.level", "read_committed", "max.poll.records", "200",
            "enable.auto.commit", "false", "auto.offset.reset", "earliest", "session.timeout.ms", "6000", "heartbeat.interval.ms", "500");
        Properties writing = properties(
            "bootstrap.servers", bootstrap, "transactional.id", name, "transaction.timeout.ms", "10000", "max.block.ms", "10000",
            "delivery.timeout.ms", "10000", "request.timeout.ms", "5000", "linger.ms", "0", "reconnect.backoff.max.ms", "100");
        KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(reading, new ByteArrayDeserializer(), new ByteArrayDeserializer());
        KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(writing, new ByteArraySerializer(), new ByteArraySerializer());
        try {
            producer.initTransactions();
            consumer.subscribe(List.of(from));
            while (!stopping.get()) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                if (records.isEmpty()) {
                    continue;
                }
                Map<TopicPartition, OffsetAndMetadata> ends = new HashMap<>();
                Map<TopicPartition, Long> starts = new HashMap<>();
                producer.beginTransaction();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    TopicPartition place = new TopicPartition(from, record.partition());
                    starts.putIfAbsent(place, record.offset());
                    ends.put(place, new OffsetAndMetadata(record.offset() + 1));
                    producer.send(new ProducerRecord<>(to, record.partition(), null, record.value()));
                }
                producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
                if (chance.nextInt(6) == 0) {
                    producer.flush();
                    producer.abortTransaction();
                    starts.forEach(consumer::seek);
                    aborts++;
                } else {
                    producer.commitTransaction();
                    commits++;
                }
            }
        } finally {
            producer.close(Duration.ZERO);
            consumer.close(org.apache.kafka.clients.consumer.CloseOptions.timeout(Duration.ofSeconds(1)));
        }
    }

    public static void main(String[] arguments) throws Exception {
        Thread ending = new Thread(() -> {
            try {
                while (System.in.read() >= 0) {
                }
            } catch (java.io.IOException end) {
                // as good as an end
            }
            stopping.set(true);
        });
        ending.setDaemon(true);
        ending.start();
        Random chance = new Random(7);
        while (!stopping.get()) {
            try {
                move(arguments[0], arguments[1], arguments[2], arguments[3], chance);
            } catch (KafkaException failure) {
                failures++;
                System.err.println("begins anew after " + failure);
            }
        }
        System.out.println(commits + " " + aborts + " " + failures);
        System.exit(0);
    }
}
