import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A share group with a dead-letter queue: members reject and release, the letters are printed. */
public class ShareDeadLetters {
    static final int LETTERS = 4;

    public static void main(String[] arguments) throws Exception {
        String bootstrap = arguments[0];
        String topic = arguments[1];
        String queue = "dlq." + topic;
        Properties common = new Properties();
        common.put("bootstrap.servers", bootstrap);
        common.put("group.id", topic);
        common.put("share.acknowledgement.mode", "explicit");
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap))) {
            NewTopic letters = new NewTopic(queue, 1, (short) 1);
            letters.configs(Map.of("errors.deadletterqueue.group.enable", "true"));
            admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1), letters)).all().get();
            Map<String, String> settings = Map.of(
                "share.auto.offset.reset", "earliest",
                "share.delivery.count.limit", "2",
                "errors.deadletterqueue.topic.name", queue,
                "errors.deadletterqueue.copy.record.enable", "true");
            Collection<AlterConfigOp> changes = new ArrayList<>();
            settings.forEach((name, value) ->
                changes.add(new AlterConfigOp(new ConfigEntry(name, value), AlterConfigOp.OpType.SET)));
            ConfigResource group = new ConfigResource(ConfigResource.Type.GROUP, topic);
            admin.incrementalAlterConfigs(Map.of(group, changes)).all().get();
            System.out.println("queue " + admin.describeConfigs(List.of(group)).all().get().get(group)
                .get("errors.deadletterqueue.topic.name").value());
        }
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(common(common), new StringSerializer(), new StringSerializer())) {
            for (int number = 0; number < 20; number++) {
                ProducerRecord<String, String> record = new ProducerRecord<>(topic, number % 2, "k" + number, "v" + number);
                record.headers().add("n", Integer.toString(number).getBytes(StandardCharsets.UTF_8));
                producer.send(record).get();
            }
        }
        long ends = System.currentTimeMillis() + 120_000;
        Map<String, Integer> deliveries = new HashMap<>();
        int accepted = 0;
        try (KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(common, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (accepted < 16 || deliveries.getOrDefault("v2", 0) < 2 || deliveries.getOrDefault("v3", 0) < 2) {
                if (System.currentTimeMillis() > ends) {
                    throw new IllegalStateException("accepted " + accepted + ", delivered " + deliveries);
                }
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    deliveries.merge(record.value(), 1, Integer::sum);
                    int number = Integer.parseInt(record.value().substring(1));
                    if (number < 2) {
                        consumer.acknowledge(record, AcknowledgeType.REJECT);
                    } else if (number < 4) {
                        consumer.acknowledge(record, AcknowledgeType.RELEASE);
                    } else {
                        accepted++;
                        consumer.acknowledge(record, AcknowledgeType.ACCEPT);
                    }
                }
                consumer.commitSync();
            }
        }
        Map<String, String> found = new TreeMap<>();
        Properties reading = new Properties();
        reading.put("bootstrap.servers", bootstrap);
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(reading, new StringDeserializer(), new StringDeserializer())) {
            TopicPartition place = new TopicPartition(queue, 0);
            consumer.assign(List.of(place));
            consumer.seekToBeginning(List.of(place));
            while (found.size() < LETTERS && System.currentTimeMillis() < ends) {
                for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(500))) {
                    StringBuilder line = new StringBuilder(record.key() + " " + record.value());
                    for (Header header : record.headers()) {
                        line.append("|").append(header.key()).append("=")
                            .append(new String(header.value(), StandardCharsets.UTF_8));
                    }
                    found.put(record.value(), line.toString());
                }
            }
        }
        found.values().forEach(line -> System.out.println("letter " + line));
    }

    static Properties common(Properties given) {
        Properties made = new Properties();
        made.put("bootstrap.servers", given.get("bootstrap.servers"));
        return made;
    }
}
