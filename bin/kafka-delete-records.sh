#!/bin/sh
# Kafka's delete-records tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-delete-records "$@"
