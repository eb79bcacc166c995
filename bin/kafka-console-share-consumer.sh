#!/bin/sh
# Kafka's console share consumer tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-console-share-consumer "$@"
