# make demo    run the lectures in fixtures/ against their recorded budgets
# make test    run the test suite
# make test-fast  the part of it that starts no kernel, under a minute on two idle cores
# make test-explore  the properties again, with many random examples
# make test-slurm  run the tests of the launcher for Slurm, on a Slurm of two nodes that is brought up here (as root)
# make coverage  the same under coverage
# make bench-matrix  run four lectures over sizes, precisions and kernels at once for 20 minutes; write the findings
# make picture  take the picture of the HTML report in the README anew (needs Chromium)
# make check   ruff, mypy for three systems, import-linter, zizmor
# make clean   remove what the others made
#
# Each works on a fresh machine with make and Python 3.11 or newer, and may be run again at any time: packages are
# installed again only after pyproject.toml or constraints.txt changed.

SHELL := /bin/sh
.DEFAULT_GOAL := test
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: demo bench-matrix picture test test-fast test-explore test-slurm coverage check clean

# The first of these that is new enough makes the environment; `make PYTHON=/path/to/python3 test` decides otherwise.
PYTHON ?= python3 python3.14 python3.13 python3.12 python3.11
VENV ?= .venv
BIN := $(VENV)/bin
DEMO := build/demo
# More arguments for pytest, for example `make test ARGS="-k units"`.
ARGS ?=

INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check \
	--constraint constraints.txt --build-constraint constraints.txt

demo: $(VENV)/.installed-fixtures
	@mkdir -p $(DEMO)
	@rm -f $(DEMO)/report.json $(DEMO)/report.md $(DEMO)/report.html
	@status=0; \
	$(BIN)/python -m pytest --lecture-budget --lecture-budget-dir fixtures/budgets \
		--lecture-report $(DEMO)/report.json --lecture-report $(DEMO)/report.md \
		--lecture-report $(DEMO)/report.html $(ARGS) fixtures/ || status=$$?; \
	for report in $(DEMO)/report.json $(DEMO)/report.md $(DEMO)/report.html; do \
		if [ ! -f "$$report" ]; then echo "report: $$report was not written"; [ "$$status" -ne 0 ] || status=1; fi; \
	done; \
	exit $$status

bench-matrix: $(VENV)/.installed-fixtures
	$(BIN)/python benchmarks/matrix.py --output build/matrix $(ARGS)

picture: $(VENV)/.installed-tests
	PYTHONPATH=tests $(BIN)/python tests/support/made_picture.py docs/images/report.png

# Three at a time, also on two cores: much of it waits. The tests of a file share sessions, and so stay together.
# In order of the folders: acceptance, which takes longest, begins, and no long file is left to one worker at the end.
# Bytecode is kept whatever the environment says: sessions in processes of their own would each compile the package.
test: $(VENV)/.installed-tests
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not slurm" $(ARGS)

test-fast: $(VENV)/.installed-tests
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadfile -m "not kernel and not slurm and not browser" $(ARGS)

test-explore: $(VENV)/.installed-tests
	LECTURECHECK_HYPOTHESIS=explore $(BIN)/python -m pytest -n 2 --dist load -m "hypothesis and not kernel" $(ARGS)

test-slurm: $(VENV)/.installed-tests
	@status=0; \
	{ tests/slurm/slurm_up.sh && $(BIN)/python -m pytest -m slurm tests/acceptance $(ARGS); } || status=$$?; \
	tests/slurm/slurm_down.sh; \
	exit $$status

# The plugin is imported before a coverage plugin could start, so coverage starts pytest; one at a time.
coverage: $(VENV)/.installed-tests
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -m "not slurm" $(ARGS)
	$(BIN)/coverage report

check: $(VENV)/.installed-tests $(VENV)/.installed-typing
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@status=0; jobs=""; \
	for system in linux darwin win32; do \
		$(BIN)/mypy --platform $$system --cache-dir .mypy_cache/$$system & jobs="$$jobs $$!"; \
	done; \
	for job in $$jobs; do wait $$job || status=1; done; \
	exit $$status
	$(BIN)/lint-imports
	$(BIN)/zizmor --offline --quiet .github docs/examples/*.yml

clean:
	rm -rf $(VENV) build dist .lecturecheck .coverage .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache

# One file for each group says that it is installed; it is written last, so that an interrupted installation starts over.
$(VENV)/.installed-%: $(VENV)/.created pyproject.toml constraints.txt
	@echo "make: installing the packages of the group '$*' into $(VENV); this is done once and takes about a minute"
	$(INSTALL) --editable . --group $*
	@touch $@

$(VENV)/.created:
	@for candidate in $(PYTHON); do \
		if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python="$$candidate"; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
		echo "make: no Python 3.11 or newer among: $(PYTHON)" >&2; \
		echo "make: install one, or name one: make PYTHON=/path/to/python3 $(MAKECMDGOALS)" >&2; \
		exit 1; \
	fi; \
	echo "make: creating the virtual environment $(VENV) with $$python"; \
	"$$python" -m venv --clear $(VENV) || { \
		echo "make: $$python cannot create a virtual environment (on Debian and Ubuntu: install python3-venv)" >&2; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade --constraint constraints.txt pip
	@touch $@
