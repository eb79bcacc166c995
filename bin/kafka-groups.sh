#!/bin/sh
# Kafka's groups tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-groups "$@"
