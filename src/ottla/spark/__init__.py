"""The Spark connector: `spark.read.format("ottla")` and its three sisters, a Python data source of PySpark.

What is decided (`options`, `offsets`, `decisions`) knows neither Spark nor a socket; `blocking_cluster` carries
requests over plain sockets, since a Spark worker does one thing at a time; `source`, `reader`, `stream_reader`,
`writer` and `stream_writer` are the classes that Spark calls.
"""
