"""Kafka Connect's converters on Arrow: bytes of records to columns and back, for Avro, Protobuf and registered JSON.

A decoder takes a binary array and gives a struct array and, row by row, why a value could not be decoded; an encoder
takes a struct array and gives a binary array. Neither knows Spark. `registry` asks a schema registry, `framing` takes
the Confluent wire format apart, `avro_schema`, `protobuf_schema` and `json_schema` know the types, `avro` and
`protobuf` move the data.
"""

from ottla.converters.errors import ConverterError

__all__ = ["ConverterError"]
