#!/bin/sh
# Kafka's consumer-perf-test tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-consumer-perf-test "$@"
