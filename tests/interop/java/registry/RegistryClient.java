import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericData;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.springframework.cloud.schema.registry.SchemaReference;
import org.springframework.cloud.schema.registry.client.ConfluentSchemaRegistryClient;

/** Spring Cloud's client of Confluent's registry, and Apache Avro: URL HEX reads a value, and prints one as hex. */
public class RegistryClient {
  private static final String LINE = "{\"type\":\"record\",\"name\":\"Line\",\"fields\":["
      + "{\"name\":\"item\",\"type\":\"string\"},{\"name\":\"count\",\"type\":\"long\"}]}";

  public static void main(String[] arguments) throws Exception {
    ConfluentSchemaRegistryClient registry = new ConfluentSchemaRegistryClient();
    registry.setEndpoint(arguments[0]);
    ByteBuffer given = ByteBuffer.wrap(HexFormat.of().parseHex(arguments[1]));
    expect(given.get() == 0, "magic");
    Schema written = new Schema.Parser().parse(registry.fetch(given.getInt()));
    byte[] payload = new byte[given.remaining()];
    given.get(payload);
    GenericRecord read = new GenericDatumReader<GenericRecord>(written)
        .read(null, DecoderFactory.get().binaryDecoder(payload, null));
    expect(read.get("item").toString().equals("pear") && read.get("count").equals(2L), read.toString());

    int id = registry.register("java-value", "avro", LINE).getId();
    expect(registry.register("java-value", "avro", LINE).getId() == id, "the same schema again");
    expect(registry.fetch(new SchemaReference("java-value", 1, "avro")).contains("Line"), "by version");
    Schema schema = new Schema.Parser().parse(registry.fetch(id));
    GenericRecord line = new GenericData.Record(schema);
    line.put("item", "fig");
    line.put("count", 3L);
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    bytes.write(ByteBuffer.allocate(5).put((byte) 0).putInt(id).array());
    var encoder = EncoderFactory.get().binaryEncoder(bytes, null);
    new GenericDatumWriter<GenericRecord>(schema).write(line, encoder);
    encoder.flush();
    System.out.println(HexFormat.of().formatHex(bytes.toByteArray()));
  }

  private static void expect(boolean is, String what) {
    if (!is) {
      throw new IllegalStateException("not as expected: " + what);
    }
  }
}
