#!/bin/sh
# Kafka's reassign-partitions tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-reassign-partitions "$@"
