#!/bin/sh
# Kafka's consumer-groups tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-consumer-groups "$@"
