#!/bin/sh
# Kafka's metadata-quorum tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-metadata-quorum "$@"
