import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.StaticTableOperations;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.CloseableIterable;

/** Prints the rows of an Iceberg table, given its metadata file: id, country, at, tags, with tabs between. */
public class ReadIceberg {
    public static void main(String[] arguments) throws Exception {
        HadoopFileIO files = new HadoopFileIO(new Configuration());
        Table table = new BaseTable(new StaticTableOperations(arguments[0], files), "orders");
        try (CloseableIterable<Record> rows = IcebergGenerics.read(table).build()) {
            for (Record row : rows) {
                System.out.println(row.getField("id") + "\t" + row.getField("country") + "\t" + row.getField("at")
                    + "\t" + row.getField("tags"));
            }
        }
    }
}
