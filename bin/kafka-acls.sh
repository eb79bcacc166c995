#!/bin/sh
# Kafka's tool for access control lists, without a JVM.
exec "$(dirname "$(readlink -f "$0")")/../ottla" kafka-acls "$@"
