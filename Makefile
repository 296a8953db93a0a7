# make demo   installs KBForge without extras into .venv, clusters the quickstart's mentions and
#             shows two entities
# make test   installs all extras and what development needs, and runs the linters, the type checker
#             and the fast tests of the product
# make test-all   runs the slow tests, the laboratory's and properties on more examples besides
# make soak   kills updates of stores, also by the plain default, and compares with whole ones;
#             keeps and reads models of 60,000 values; damages 5,000 files for all readers;
#             kills every verb beside readers and a writer; follows a store beside two writers that
#             erase; kills a server while fragments come; keeps 1,500 connections of slow clients
#             open beside eight readers
# make kernel compiles the kernel again, when its sources have changed
# make docs   writes the reference of the command line and the session of docs/serving.md, and builds
#             the manual into the folder site
# make dist   builds the source distribution and a wheel into dist, whose kernel any Linux with
#             glibc 2.28 loads, or any such macOS
# make gpu    runs the checks that need a GPU, in under four minutes, and writes their figures into
#             the folder OUT (build/gpu); without a GPU they are skipped, with the reason
# make gpu-train   trains the likelihood gpt on an H100 by the recipe h100, in under eight minutes,
#             and measures it; SCALE=.01 shows on a CPU that it works, in two minutes
# make gpu-pack    packs what a machine with a GPU and without a network lacks for both into
#             build/gpu-pack: packages for PACK_PYTHON (3.12), and the corpus, if KBFORGE_DATA is set
#
# The demo needs no PyTorch, the tests do. On Linux pip takes one with gigabytes of CUDA libraries;
# this takes the CPU build:
#
#   make test PIP_ARGS='--extra-index-url https://download.pytorch.org/whl/cpu'
#
# PYTHON=python3.12     another interpreter (3.11 or newer)
# PIP_ARGS=...          more arguments for pip, such as the index above

PYTHON ?= python3
PIP_ARGS ?=
VENV := .venv
BIN := $(VENV)/bin
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --quiet -c constraints.txt $(PIP_ARGS)
DEMO := examples/quickstart
KERNEL := $(wildcard kbforge/kernel/src/* plugins/*/*/src/*)
PYTEST := $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist loadfile
FEW_EXAMPLES := --hypothesis-profile=fast

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow test-all kernel soak gpu gpu-train gpu-pack lint docs dist clean

help:
	@sed -n 's/^# \{0,1\}//p' Makefile

demo: $(VENV)/.installed
	@mkdir -p $(DEMO)/out
	$(BIN)/kbforge cluster $(DEMO)/fragments.jsonl -o $(DEMO)/out/kb.jsonl
	$(BIN)/kbforge evaluate $(DEMO)/out/kb.jsonl $(DEMO)/fragments.jsonl | head -n 4
	$(BIN)/kbforge show $(DEMO)/out/kb.jsonl --fragment 'ledger/019#4'
	$(BIN)/kbforge show $(DEMO)/out/kb.jsonl --ambiguous --top 1

# everything runs even if one part fails, so that one run tells all that is wrong
test: $(VENV)/.installed-dev
	@status=0; \
	$(MAKE) --no-print-directory lint || status=1; \
	$(PYTEST) $(FEW_EXAMPLES) -m "not slow" --ignore=tests/lab || status=1; \
	exit $$status

# what make test leaves out
test-slow: $(VENV)/.installed-dev
	$(PYTEST) $(FEW_EXAMPLES) -m "slow or lab"

test-all:
	@status=0; \
	$(MAKE) --no-print-directory test || status=1; \
	$(MAKE) --no-print-directory test-slow || status=1; \
	$(PYTEST) -m hypothesis || status=1; \
	exit $$status

kernel: $(VENV)/.installed
	$(BIN)/python kbforge/kernel/build.py
	$(foreach sources,$(wildcard plugins/*/*/src),$(BIN)/python kbforge/kernel/build.py $(dir $(sources));)

soak: $(VENV)/.installed-dev
	KBFORGE_SOAK=1 $(BIN)/python -m pytest tests/store/test_damage.py
	$(BIN)/python -m tests.soak
	KBFORGE_HOSTILE=5000 $(BIN)/python -m pytest -q tests/hostile/test_inputs.py
	$(BIN)/python -m tests.soak.events
	$(BIN)/python -m tests.serve.soak.follow
	$(BIN)/python -m tests.serve.soak.serve
	$(BIN)/python -m tests.serve.soak.connections

# these two install nothing: the machine may have no network
GPU_PYTHON ?= $(if $(wildcard $(BIN)/python),$(BIN)/python,$(PYTHON))
OUT ?= build/gpu
SCALE ?= 1
PACK_PYTHON ?= 3.12

gpu:
	$(GPU_PYTHON) -m tests.lm.gpu --out $(OUT)

gpu-train:
	$(GPU_PYTHON) -m tests.lm.gpu.train --out $(OUT) --scale $(SCALE) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(FROM),--from $(FROM))

gpu-pack: $(VENV)/.installed-dev
	$(if $(KBFORGE_DATA),$(BIN)/python examples/reproductions/lm_corpus.py build/gpu-corpus --generated 300)
	$(BIN)/python -m tests.lm.gpu.pack $(if $(KBFORGE_DATA),build/gpu-corpus) --python $(PACK_PYTHON)

lint: $(VENV)/.installed-dev
	@status=0; \
	$(BIN)/ruff check || status=1; \
	$(BIN)/ruff format --check || status=1; \
	$(BIN)/mypy || status=1; \
	exit $$status

docs: $(VENV)/.installed-dev
	$(BIN)/python docs/generate_cli.py
	$(BIN)/python docs/generate_mcp.py
	rm -rf site
	$(BIN)/python -m zensical build --strict
	$(BIN)/python docs/generate_llms.py site

dist: $(VENV)/.installed-dev
	rm -rf dist
	$(BIN)/python -m build --sdist --outdir dist
	KBFORGE_KERNEL=portable $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist dist/entity_fragments-*.tar.gz
	@ls -l dist

clean:
	rm -rf $(VENV) build dist site .cache $(DEMO)/out .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "KBForge needs Python 3.11 or newer; try make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml constraints.txt $(KERNEL)
	$(PIP_INSTALL) -e .
	@touch $@

# the tests of Spark need Java, and skip without
ifneq ($(shell command -v java),)
SPARK := spark,
endif

$(VENV)/.installed-dev: $(VENV)/.created pyproject.toml constraints.txt $(KERNEL)
	$(PIP_INSTALL) -e '.[$(SPARK)all,dev]'
	@touch $@ $(VENV)/.installed
