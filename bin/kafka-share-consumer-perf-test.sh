#!/bin/sh
# Kafka's share consumer performance tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-share-consumer-perf-test "$@"
