# A thin front for CMake and tools/: the words everybody types.
# SPDX-License-Identifier: Apache-2.0
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: build try test check check-long fuzz soak torture coverage install format bench dist deb in-clone clean
.PHONY: deps-build deps-test deps-fuzz deps-coverage deps-deb

build:
	@cmake --preset release >/dev/null
	@cmake --build --preset release

# The command alone: its tests take as long again.
try: deps-build
	@cmake --preset release >/dev/null
	@cmake --build --preset release --target holdfast_command
	@tools/try

# Before each commit: no server, and soon done.
test:
	@tools/test

check:
	@tools/check

# Before a release: planted bugs, packages, other Debians, the fault campaign's short form, the model.
check-long:
	@tools/check-long

fuzz: deps-fuzz
	@tools/fuzz $(or $(SECONDS),60)

# SECONDS=3600 SEED=n: for how long faults come, and which ones.
torture: deps-test build
	@tests/torture/campaign.py --store both $(if $(SECONDS),--seconds $(SECONDS)) \
	    $(if $(SEED),--seed $(SEED))
	@tests/torture/campaign.py --store set --gates $(if $(SECONDS),--seconds $(SECONDS)) \
	    $(if $(SEED),--seed $(SEED))

# What root has written into the build folder goes to the owner of the tree, who will build again.
install: build
	@DESTDIR='$(DESTDIR)' cmake --install build --prefix '$(PREFIX)'
	@[ -n '$(DESTDIR)' ] || [ "$$(id -u)" -ne 0 ] || ldconfig
	@[ "$$(id -u)" -ne 0 ] || chown -R -h --from=0 --reference=. build

format:
	@tools/format

coverage: deps-coverage
	@tools/coverage

soak: build
	@tools/soak

# FLAGS='--runs 3': those of `holdfast bench`; '--only crowd', '--only weather': parts that need more than one store.
bench: deps-test build
	@tools/bench $(FLAGS)

# The sources, and Debian packages of them, into build-packages/.
dist: in-clone
	@tools/dist

deb: in-clone deps-deb
	@tools/deb

in-clone:
	@[ -e .git ] || { echo "they are made of what git has of a commit: call this in a git clone" >&2; exit 1; }

clean:
	rm -rf build build-dev build-asan build-tsan build-fuzz build-planted \
	    build-mutants build-coverage build-packages build-ages

deps-build:
	@tools/install-deps build

deps-test:
	@tools/install-deps test

deps-fuzz:
	@tools/install-deps fuzz

deps-coverage:
	@tools/install-deps coverage

deps-deb:
	@tools/install-deps deb
