#!/bin/sh
# Kafka's delegation tokens tool, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-delegation-tokens "$@"
