#!/bin/sh
# Kafka's get-offsets tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-get-offsets "$@"
