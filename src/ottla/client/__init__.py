"""The Python client: producer, consumer and admin, against Ottla and Apache Kafka alike."""
