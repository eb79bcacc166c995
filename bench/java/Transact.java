import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Transactions, one after another: begin, send, commit. The records of a transaction go round the topic's partitions.
 *
 * Arguments: bootstrap server, process id of the server, seconds, then any count of shapes, each measured for that long:
 * topic:partitions:records:producers. Prints a line for each: transactions, seconds, milliseconds of commit (median, 99th
 * of a hundred, 99.9th, longest), milliseconds of a whole transaction (median, 99th), CPU seconds of the server.
 *
 * Or: bootstrap server, "fill", topic, partitions, transactions, records of each, n: every nth is aborted (0: none).
 */
public class Transact {
    private static final byte[] VALUE = new byte[1000];
    private static final double TICKS = 100.0;

    private static KafkaProducer<byte[], byte[]> producer(String bootstrap, String id) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        KafkaProducer<byte[], byte[]> made =
                new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
        made.initTransactions();
        return made;
    }

    private static double cpuSeconds(String pid) throws Exception {
        String stat = Files.readString(Path.of("/proc", pid, "stat"));
        String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
        return (Long.parseLong(fields[11]) + Long.parseLong(fields[12])) / TICKS;
    }

    private static long send(
            KafkaProducer<byte[], byte[]> producer, String topic, int partitions, int records, long next) {
        for (int count = 0; count < records; count++) {
            producer.send(new ProducerRecord<>(topic, (int) (next++ % partitions), null, VALUE));
        }
        return next;
    }

    /** Pairs of nanoseconds: of the commit, and of the whole transaction. */
    private static List<long[]> repeat(
            KafkaProducer<byte[], byte[]> producer, String topic, int partitions, int records, double seconds) {
        List<long[]> took = new ArrayList<>();
        long next = 0;
        long end = System.nanoTime() + (long) (seconds * 1e9);
        long began = System.nanoTime();
        while (began < end) {
            producer.beginTransaction();
            next = send(producer, topic, partitions, records, next);
            long sent = System.nanoTime();
            producer.commitTransaction();
            long committed = System.nanoTime();
            took.add(new long[] {committed - sent, committed - began});
            began = committed;
        }
        return took;
    }

    private static double milliseconds(long[] ordered, double share) {
        return ordered[Math.min(ordered.length - 1, (int) (ordered.length * share))] / 1e6;
    }

    private static void measure(String bootstrap, String pid, double seconds, String shape) throws Exception {
        String[] parts = shape.split(":");
        int partitions = Integer.parseInt(parts[1]);
        int records = Integer.parseInt(parts[2]);
        int producers = Integer.parseInt(parts[3]);
        List<KafkaProducer<byte[], byte[]>> made = new ArrayList<>();
        ExecutorService threads = Executors.newFixedThreadPool(producers);
        try {
            for (int number = 0; number < producers; number++) {
                made.add(producer(bootstrap, "transact-" + number));
                repeat(made.get(number), parts[0], partitions, records, 0.2); // connections and metadata
            }
            double cpu = cpuSeconds(pid);
            long started = System.nanoTime();
            List<Callable<List<long[]>>> work = new ArrayList<>();
            for (KafkaProducer<byte[], byte[]> one : made) {
                work.add(() -> repeat(one, parts[0], partitions, records, seconds));
            }
            List<long[]> took = new ArrayList<>();
            for (Future<List<long[]>> done : threads.invokeAll(work)) {
                took.addAll(done.get());
            }
            double elapsed = (System.nanoTime() - started) / 1e9;
            cpu = cpuSeconds(pid) - cpu;
            long[] commits = took.stream().mapToLong(pair -> pair[0]).sorted().toArray();
            long[] wholes = took.stream().mapToLong(pair -> pair[1]).sorted().toArray();
            System.out.printf(
                    "%d %.3f %.3f %.3f %.3f %.3f %.3f %.3f %.2f%n",
                    commits.length, elapsed, milliseconds(commits, 0.5), milliseconds(commits, 0.99),
                    milliseconds(commits, 0.999), milliseconds(commits, 1), milliseconds(wholes, 0.5),
                    milliseconds(wholes, 0.99), cpu);
        } finally {
            threads.shutdownNow();
            made.forEach(KafkaProducer::close);
        }
    }

    private static void fill(String[] arguments) {
        int partitions = Integer.parseInt(arguments[3]);
        int transactions = Integer.parseInt(arguments[4]);
        int records = Integer.parseInt(arguments[5]);
        int aborted = Integer.parseInt(arguments[6]);
        long next = 0;
        try (KafkaProducer<byte[], byte[]> producer = producer(arguments[0], "fill")) {
            for (int number = 1; number <= transactions; number++) {
                producer.beginTransaction();
                next = send(producer, arguments[2], partitions, records, next);
                if (aborted > 0 && number % aborted == 0) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        Arrays.fill(VALUE, (byte) 'x');
        if (arguments[1].equals("fill")) {
            fill(arguments);
            return;
        }
        for (String shape : Arrays.copyOfRange(arguments, 3, arguments.length)) {
            measure(arguments[0], arguments[1], Double.parseDouble(arguments[2]), shape);
        }
    }
}
