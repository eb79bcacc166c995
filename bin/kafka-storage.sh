#!/bin/sh
# Kafka's storage tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-storage "$@"
