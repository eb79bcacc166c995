#!/bin/sh
# Kafka's producer-perf-test tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-producer-perf-test "$@"
