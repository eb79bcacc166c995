import java.io.FileReader;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * Reads a whole topic with assign(), which needs no group coordinator. Settings and what is counted are those of
 * kafka-consumer-perf-test: 2 MB receive buffer, 1 MB per partition, no second CRC check in the client.
 *
 * Arguments: bootstrap server, topic, count of partitions, count of records, isolation level (read_uncommitted), a file
 * of more settings (none). Prints: records bytes milliseconds.
 */
public class Consume {
    private static final long PATIENCE_NANOS = 30_000_000_000L;

    public static void main(String[] arguments) throws IOException {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("receive.buffer.bytes", "2097152");
        settings.put("max.partition.fetch.bytes", "1048576");
        settings.put("check.crcs", "false");
        settings.put("isolation.level", arguments.length > 4 ? arguments[4] : "read_uncommitted");
        if (arguments.length > 5) {
            try (FileReader file = new FileReader(arguments[5])) {
                settings.load(file);
            }
        }
        List<TopicPartition> partitions = new ArrayList<>();
        for (int index = 0; index < Integer.parseInt(arguments[2]); index++) {
            partitions.add(new TopicPartition(arguments[1], index));
        }
        long wanted = Long.parseLong(arguments[3]);
        long records = 0;
        long bytes = 0;
        try (KafkaConsumer<byte[], byte[]> consumer =
                new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            long started = System.nanoTime();
            long last = started;
            while (records < wanted && System.nanoTime() - last < PATIENCE_NANOS) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofMillis(100));
                if (!polled.isEmpty()) {
                    last = System.nanoTime();
                }
                for (ConsumerRecord<byte[], byte[]> record : polled) {
                    records++;
                    bytes += record.value().length;
                }
            }
            System.out.printf("%d %d %.3f%n", records, bytes, (last - started) / 1e6);
        }
        if (records < wanted) {
            System.err.println(records + " of " + wanted + " records came");
            System.exit(1);
        }
    }
}
