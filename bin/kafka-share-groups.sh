#!/bin/sh
# Kafka's share groups tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-share-groups "$@"
