# Shortcuts, such as `make demo` and `make test` on a bare Debian machine.  CMake and its presets do the work.
PRESET ?= release
BUILD := build/$(PRESET)
PREFIX ?= /usr/local

.PHONY: all build deps demo test bench check format install clean
all: build

deps:
	@scripts/install-deps

build: deps
	@cmake --preset $(PRESET) -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null
	@cmake --build --preset $(PRESET)

demo: build
	$(BUILD)/gyre lab

test: build
	@scripts/run-tests $(BUILD)

bench: build
	$(BUILD)/gyre bench train

check:
	.ci/run

format:
	ci/format --fix

install: build
	cmake --install $(BUILD)

clean:
	rm -rf build
