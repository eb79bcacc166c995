#!/bin/sh
# Kafka's streams groups tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-streams-groups "$@"
