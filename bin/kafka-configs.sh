#!/bin/sh
# Kafka's configs tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-configs "$@"
