#!/bin/sh
# Kafka's topics tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-topics "$@"
