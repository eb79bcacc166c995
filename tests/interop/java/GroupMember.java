import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.TreeSet;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;

/** One member of a group: prints "owns 0 1 2" whenever that changes and "read PARTITION OFFSET" for every record;
 * arguments: bootstrap, group, topic, then settings as name=value. It leaves when its standard input ends. */
public class GroupMember {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        for (int index = 3; index < arguments.length; index++) {
            String[] setting = arguments[index].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings)) {
            consumer.subscribe(List.of(arguments[2]));
            TreeSet<Integer> owned = new TreeSet<>();
            owned.add(-1);
            while (System.in.available() == 0) {
                var records = consumer.poll(Duration.ofMillis(50));
                TreeSet<Integer> now = new TreeSet<>();
                consumer.assignment().forEach(partition -> now.add(partition.partition()));
                if (!now.equals(owned)) {
                    owned = now;
                    StringBuilder line = new StringBuilder("owns");
                    owned.forEach(number -> line.append(' ').append(number));
                    System.out.println(line);
                }
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    System.out.println("read " + record.partition() + " " + record.offset());
                }
                if (!records.isEmpty()) {
                    consumer.commitSync();
                }
                System.out.flush();
            }
        }
    }
}
