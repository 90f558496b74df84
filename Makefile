# Two commands on a fresh machine (Debian 12, root, cargo present): `make demo` and `make test`. Each installs what it
# needs and is missing, and touches no network when nothing is.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

CACHE := $(HOME)/.cache/tidegate
CARGO_TARGET_DIR ?= $(CACHE)/target
export CARGO_TARGET_DIR

# Tools that cargo builds; each in a directory that names its version.
DENY_VERSION := 0.20.2
DENY := $(CACHE)/cargo-deny-$(DENY_VERSION)/bin/cargo-deny

KAFKA_POM := tests/services/kafka/pom.xml
KAFKA_VERSION := $(shell sed -n 's:.*<kafka.version>\(.*\)</kafka.version>.*:\1:p' $(KAFKA_POM))
KAFKA_DIR := $(CACHE)/kafka-$(KAFKA_VERSION)
PROMETHEUS_DIR := $(CACHE)/prometheus

.PHONY: demo install test lint bench toolchain services kafka rabbitmq prometheus

# A Worker goes 0 -> N -> 0 on an embedded Kafka, in under a minute once it is built.
demo: toolchain
	cargo build --release --locked -p tidegate
	"$(CARGO_TARGET_DIR)/release/tidegate" demo

# The program, for use outside this folder.
PREFIX ?= /usr/local
install: toolchain
	cargo build --release --locked -p tidegate
	install -D -m 755 "$(CARGO_TARGET_DIR)/release/tidegate" "$(DESTDIR)$(PREFIX)/bin/tidegate"

# Unit tests, then the integration binary, which starts the services it needs on loopback ports of its own and stops them.
# Some tests run the command; it is built before, so that no test waits for a compiler.
test: toolchain services
	cargo build --workspace --locked --bin tidegate
	cargo test --workspace --locked

# Ratios side by side with a bare service, and with servers that hang: in a minute and a half.
bench: toolchain
	cargo run --release --locked -p tidegate-benches

lint: toolchain $(DENY)
	@cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 || \
	  { echo "make lint needs rustfmt and clippy: rustup component add rustfmt clippy, or Debian's rustfmt and rust-clippy" >&2; exit 1; }
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings -A rustdoc::private-intra-doc-links" cargo doc --workspace --no-deps --document-private-items --locked
	"$(DENY)" --locked check licenses bans sources

# `need` takes pairs of a command and the Debian package that has it, and installs the packages whose command is missing.
define need
	@missing=""; set -- $(1); \
	while [ $$# -gt 0 ]; do command -v "$$1" >/dev/null || missing="$$missing $$2"; shift 2; done; \
	if [ -n "$$missing" ]; then \
	  export DEBIAN_FRONTEND=noninteractive; \
	  apt-get update -qq; \
	  apt-get install -y -qq --no-install-recommends $$missing; \
	fi
endef

# A C and a C++ compiler: ring has C code, and librdkafka (demo and tests) is built from source and asks for both.
toolchain:
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust first" >&2; exit 1; }
	$(call need,gcc gcc g++ g++)

# Three minutes on two cores, once.
$(DENY): | toolchain
	env -u CARGO_TARGET_DIR cargo install --quiet --debug --locked --version $(DENY_VERSION) \
	  --root "$(CACHE)/cargo-deny-$(DENY_VERSION)" cargo-deny

services: kafka rabbitmq prometheus

kafka: $(KAFKA_DIR)/.complete

# Maven Central's jars, once for each version; written beside their place first, so that a broken download is never taken for a whole one.
$(KAFKA_DIR)/.complete:
	$(call need,java openjdk-17-jre-headless mvn maven)
	rm -rf "$(KAFKA_DIR)" "$(KAFKA_DIR).new"
	mvn -q -B -f $(KAFKA_POM) -DincludeScope=runtime -DoutputDirectory="$(KAFKA_DIR).new" dependency:copy-dependencies
	mv "$(KAFKA_DIR).new" "$(KAFKA_DIR)"
	tests/services/kafka/archive.sh "$(KAFKA_DIR)" || echo "no class-data archive: Kafka starts slower" >&2
	touch "$@"

# Debian's 3.10. RUNLEVEL keeps its package from starting a node of its own: the tests start theirs. --no-install-recommends
# brings Erlang without its graphical part.
rabbitmq:
	@command -v rabbitmq-server >/dev/null || { export DEBIAN_FRONTEND=noninteractive; apt-get update -qq; \
	  RUNLEVEL=1 apt-get install -y -qq --no-install-recommends rabbitmq-server; }

prometheus: $(PROMETHEUS_DIR)/.complete

# Debian's packages, unpacked and not installed: an installed one would start a server of its own.
$(PROMETHEUS_DIR)/.complete:
	rm -rf "$(PROMETHEUS_DIR)" "$(PROMETHEUS_DIR).new"
	mkdir -p "$(PROMETHEUS_DIR).new"
	apt-get update -qq
	cd "$(PROMETHEUS_DIR).new" && apt-get download -qq -o APT::Sandbox::User=root prometheus victoria-metrics
	for package in "$(PROMETHEUS_DIR).new"/*.deb; do dpkg-deb -x "$$package" "$(PROMETHEUS_DIR).new"; rm "$$package"; done
	mv "$(PROMETHEUS_DIR).new" "$(PROMETHEUS_DIR)"
	touch "$@"
