"""Kafka's own console tools without a JVM: one file each, called by bin/kafka-NAME.sh.

Flags, columns, messages and exit codes are those of Kafka 4.3.1; the tests compare with what the originals print.
"""
