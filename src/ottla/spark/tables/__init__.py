"""Tables in files, Delta and Iceberg, without a jar: delta-rs and pyiceberg keep the tables' logs, tasks write and read
their Parquet files.

A batch of a stream is one commit of the table, which also says which query's which batch it is: a batch that comes
again after a crash is known, and its files are thrown away. `table` is what both kinds have in common, `data_files`
writes Parquet, `delta` and `iceberg` know the formats, `data_source` is what Spark calls.
"""
