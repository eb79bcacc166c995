#!/bin/sh
# Kafka's dump-log tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-dump-log "$@"
