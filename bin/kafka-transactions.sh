#!/bin/sh
# Kafka's transactions tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-transactions "$@"
