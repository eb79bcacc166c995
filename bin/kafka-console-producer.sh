#!/bin/sh
# Kafka's console-producer tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-console-producer "$@"
