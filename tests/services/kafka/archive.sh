#!/usr/bin/env bash
# Makes a class-data archive of Kafka's jars, with which a node starts in half the time: runs a node once, in a directory
# of its own, until it has started. Called by `make kafka` with the directory of the jars; writes classes.jsa there.
# The node's two ports lie just below those that the tests take.
set -euo pipefail

jars=$1
home=$(mktemp -d)
trap 'rm -rf "$home"' EXIT

cat >"$home/server.properties" <<PROPERTIES
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:11998
listeners=CONTROLLER://127.0.0.1:11998,PLAINTEXT://127.0.0.1:11999
controller.listener.names=CONTROLLER
log.dirs=$home/data
offsets.topic.replication.factor=1
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
PROPERTIES

java=(java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx256m)
"${java[@]}" -cp "$jars/*" kafka.tools.StorageTool format -t tidegate-tests-kafkaAA -c "$home/server.properties" \
  >"$home/format.log" 2>&1
"${java[@]}" "-XX:ArchiveClassesAtExit=$home/classes.jsa" -cp "$jars/*" kafka.Kafka "$home/server.properties" \
  >"$home/log" 2>&1 &
node=$!
for _ in $(seq 600); do
  if ! kill -0 "$node" 2>/dev/null; then
    cat "$home/log" >&2
    exit 1
  fi
  if grep -q 'Kafka Server started' "$home/log"; then
    break
  fi
  sleep 0.1
done
kill "$node"
wait "$node" || true # a Java process that SIGTERM ends says 143
mv "$home/classes.jsa" "$jars/classes.jsa"
