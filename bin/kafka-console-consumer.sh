#!/bin/sh
# Kafka's console-consumer tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-console-consumer "$@"
