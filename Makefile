# Shortcuts, such as `make demo` and `make test` on a bare Debian machine.  CMake and its presets do the work.
PRESET ?= release
BUILD := build/$(PRESET)
PREFIX ?= /usr/local

.PHONY: all build deps configure demo test real bench docs explorer check dist format install clean
all: build

deps:
	@scripts/install-deps

configure: deps
	@cmake --preset $(PRESET) -DCMAKE_INSTALL_PREFIX=$(PREFIX) >/dev/null

# The command and the libraries, which is what demo runs and install installs.  Only test builds the tests.
build: configure
	@cmake --build --preset $(PRESET) --target gyre_command

demo:
	@scripts/demo --begin
	@$(MAKE) --no-print-directory build
	@scripts/demo $(BUILD)/gyre

test:
	@echo "Builds Gyre and its tests, and runs them: about $$((700 / $$(nproc))) seconds with $$(nproc) processors."
	@$(MAKE) --no-print-directory configure
	@scripts/test-python --prepare $(BUILD)
	@cmake --build --preset $(PRESET)
	@scripts/run-tests $(BUILD)
	@scripts/test-python $(BUILD)

# The commands on models that nobody here trained, which are fetched once into a cache.
real:
	@echo "Runs the commands on two published models: about $$((200 / $$(nproc))) seconds with $$(nproc) processors," \
	    "after 2.3 GB of packages and models are fetched once."
	@ci/run real

bench: build
	$(BUILD)/gyre bench train

# One HTML file, build/explorer/explorer.html, which gyre explore opens and install installs.
explorer:
	@scripts/install-deps --explorer
	@scripts/build-explorer

check:
	.ci/run

dist:
	scripts/source-archive

# The documents as a web site, build/site.  Not --quiet, which hides warnings from --strict too.  The explorer is in it if
# `make explorer` built it before.
docs: build/docs-venv/done
	@export NO_MKDOCS_2_WARNING=1; for site in mkdocs.yml mkdocs.zh.yml; do \
	    build/docs-venv/bin/mkdocs build --strict -f site/$$site >build/docs.log 2>&1 || { cat build/docs.log >&2; exit 1; }; \
	done
	@echo build/site/index.html

build/docs-venv/done: site/requirements.txt
	@python3 -m venv build/docs-venv
	@build/docs-venv/bin/pip install --quiet --disable-pip-version-check -r site/requirements.txt
	@touch $@

format:
	ci/run format --fix

install: build
	cmake --install $(BUILD)

clean:
	rm -rf build
