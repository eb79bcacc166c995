import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Random;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicIdPartition;

/** One member of a share group with explicit acknowledgement; arguments: bootstrap, group, topic, then settings as
 * name=value. It prints "took PARTITION OFFSET COUNT" for every record, "said PARTITION OFFSET accept|release" before and
 * "done PARTITION OFFSET accept|release" after a commit that had no error for its partition. It leaves when its standard
 * input ends. */
public class ShareMember {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", arguments[1]);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        for (int index = 3; index < arguments.length; index++) {
            String[] setting = arguments[index].split("=", 2);
            settings.put(setting[0], setting[1]);
        }
        Random chance = new Random(7);
        try (KafkaShareConsumer<byte[], byte[]> consumer = new KafkaShareConsumer<>(settings)) {
            consumer.subscribe(List.of(arguments[2]));
            while (System.in.available() == 0) {
                ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(200));
                StringBuilder said = new StringBuilder();
                Map<String, String> kinds = new java.util.LinkedHashMap<>();
                for (ConsumerRecord<byte[], byte[]> record : records) {
                    String place = record.partition() + " " + record.offset();
                    System.out.println("took " + place + " " + record.deliveryCount().orElse((short) 0));
                    boolean accepts = chance.nextInt(10) > 0;
                    consumer.acknowledge(record, accepts ? AcknowledgeType.ACCEPT : AcknowledgeType.RELEASE);
                    kinds.put(place, accepts ? "accept" : "release");
                    said.append("said ").append(place).append(accepts ? " accept\n" : " release\n");
                }
                System.out.print(said);
                System.out.flush();
                if (kinds.isEmpty()) {
                    continue;
                }
                Map<TopicIdPartition, Optional<KafkaException>> results = consumer.commitSync(Duration.ofSeconds(60));
                results.forEach((partition, error) -> {
                    if (error.isEmpty()) {
                        kinds.forEach((place, kind) -> {
                            if (place.startsWith(partition.partition() + " ")) {
                                System.out.println("done " + place + " " + kind);
                            }
                        });
                    }
                });
                System.out.flush();
            }
        }
    }
}
