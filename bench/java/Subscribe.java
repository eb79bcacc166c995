import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * From subscribe() to the first record, again and again: each time a new consumer alone in a new group.
 *
 * Arguments: bootstrap server, topic, prefix of the group ids, classic or consumer, repetitions. Prints the milliseconds
 * of each repetition on one line; the first is that of a cold JVM.
 */
public class Subscribe {
    private static final long PATIENCE_NANOS = 60_000_000_000L;

    public static void main(String[] arguments) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.protocol", arguments[3]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        StringBuilder printed = new StringBuilder();
        for (int repetition = 0; repetition < Integer.parseInt(arguments[4]); repetition++) {
            settings.put("group.id", arguments[2] + "-" + repetition);
            try (KafkaConsumer<byte[], byte[]> consumer =
                    new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
                long started = System.nanoTime();
                consumer.subscribe(List.of(arguments[1]));
                while (consumer.poll(Duration.ofMillis(100)).isEmpty()) {
                    if (System.nanoTime() - started > PATIENCE_NANOS) {
                        System.err.println("no record came in a minute");
                        System.exit(1);
                    }
                }
                printed.append(String.format("%.3f ", (System.nanoTime() - started) / 1e6));
            }
        }
        System.out.println(printed.toString().trim());
    }
}
