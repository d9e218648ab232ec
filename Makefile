# A thin front for CMake and tools/: the words everybody types.
# SPDX-License-Identifier: Apache-2.0
PREFIX ?= /usr/local
DESTDIR ?=

.PHONY: build try check install format bench clean deps-build deps-test

build:
	@cmake --preset release >/dev/null
	@cmake --build --preset release

try: deps-build
	@$(MAKE) --no-print-directory build
	@tools/try

check:
	@tools/check

install: build
	@DESTDIR='$(DESTDIR)' cmake --install build --prefix '$(PREFIX)'

format:
	@tools/format

bench: build
	@tools/bench

clean:
	rm -rf build build-dev build-asan build-tsan build-clang build-planted

deps-build:
	@tools/install-deps build

deps-test:
	@tools/install-deps test
