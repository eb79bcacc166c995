#!/bin/sh
# Kafka's server-start tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-server-start "$@"
