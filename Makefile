# Shortcuts, such as `make demo` and `make test` on a bare Debian machine.  CMake and its presets do the work.
PRESET ?= release
BUILD := build/$(PRESET)
PREFIX ?= /usr/local

.PHONY: all build deps configure demo test bench explorer check format install clean
all: build

deps:
	@scripts/install-deps

configure: deps
	@cmake --preset $(PRESET) -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null

# The command and the libraries, which is what demo runs and install installs.  Only test builds the tests.
build: configure
	@cmake --build --preset $(PRESET) --target gyre_command

demo: build
	$(BUILD)/gyre lab

test: configure
	@scripts/test-python --prepare $(BUILD)
	@cmake --build --preset $(PRESET)
	@scripts/run-tests $(BUILD)
	@scripts/test-python $(BUILD)

bench: build
	$(BUILD)/gyre bench train

# One HTML file, build/explorer/explorer.html, which gyre explore opens and install installs.
explorer:
	@scripts/install-deps --explorer
	@scripts/build-explorer

check:
	.ci/run

format:
	ci/format --fix

install: build
	cmake --install $(BUILD)

clean:
	rm -rf build
