#!/bin/sh
# Kafka's leader-election tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-leader-election "$@"
