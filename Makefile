# make measure     measure on this machine: IPv4 against IPv6, native and through tunnels, HTTP and SMTP, design quick
# make report      one page of what --alluredir=.ipperf/allure left, or RESULTS=FOLDER, by Allure 3 (needs Node.js)
# make check       ruff, mypy, the import contracts and the tests that need neither network nor processes; two minutes
# make test        run the project's own tests, tier by tier, with the time that each took
# make lint        ruff, mypy and the import contracts
# make servers     the real servers (Apache, Postfix, ProFTPD, Dovecot, BIND): prints the apt-get line; as root, runs it
#                  and unpacks Courier beside Dovecot, with which apt would not have it
# make evidence    the tests that take long (simulations, truth, faults, A/A), every Python that is here and the lowest
#                  dependencies, both commands in a minimal Debian 12 (as root), what the lab's four paths carry, the
#                  engines beside other tools, then make grids; hours
# make grids       the studies' whole grids, of routers in runs of 1 s, then response times under design standard, on
#                  real servers; about 50 minutes; what is broken off goes on with ARGS=--ipperf-resume=last
# make docs        write the tables of docs/ that the code says anew
# make lock        renew requirements.lock and requirements.lowest (needs uv)
# make clean       remove .venv and everything else that was made here, but no results
# make help        this text
#
# Other arguments for pytest: make measure ARGS="--testbed=lab --connections=1,10,100"

PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest
SERVERS := apache2-bin postfix proftpd-core dovecot-imapd bind9

.PHONY: measure report check test lint types contracts servers evidence grids docs lock clean help venv network

# Where a lab stands, its links have a rate: then tunnels are there for everyone, and figures are those of links.
measure: ARGS ?= --connections=1,10
measure: venv network
	@testbed=$$($(PYTHON) -c "from pytest_ipperf.lab.netns.namespaces import unusable; \
	    print('' if unusable() else 'lab.100mbit')") && \
	$(PYTEST) suites -m "smtp or http" -p no:randomly -o ipperf_testbed=$$testbed $(ARGS) || { status=$$?; \
	    echo "pytest ended with status $$status; docs/exit-status.md says what each status means" >&2; exit $$status; }

report: RESULTS ?= .ipperf/allure
report:
	@sh .ci/allure/report $(RESULTS)

check: venv
	@bash .ci/check $(ARGS)

test: venv network
	@bash .ci/tests $(ARGS)

lint: venv types contracts
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check

# The hosts' Python may be older than the controller's, and only mypy knows which parts of the library it lacks.
types: venv
	$(PYTHON) -m mypy
	$(PYTHON) -m mypy --python-version 3.10 $(addprefix pytest_ipperf/,agent protocols servers transports core/portable)

contracts: venv
	$(PYTHON) .venv/bin/lint-imports --no-logo

servers:
	@sh .ci/packages $(SERVERS)
	@[ "$$(id -u)" != 0 ] || sh .ci/courier

evidence: venv
	@$(PYTEST) tests -m evidence $(ARGS)
	@bash .ci/versions all
	@[ "$$(id -u)" != 0 ] || sh .ci/bare --all
	@$(PYTHON) benchmarks/paths.py
	@for each in throughput packets pacing rtt agreement hosts startup; do $(PYTHON) benchmarks/$$each.py || exit $$?; done
	@$(MAKE) --no-print-directory grids

# Design paper never judges, and says so with status 10.
grids: venv
	@$(PYTEST) suites/response_time --design=paper --ipperf-server=courier,real -p no:randomly $(ARGS) || [ $$? = 10 ]
	@$(PYTEST) suites/router --testbed=lab.100mbit --transport=native,isatap --design=paper --duration=1s \
	    -p no:randomly $(ARGS) || [ $$? = 10 ]
	@$(PYTEST) suites/response_time --design=standard --ipperf-server=real -p no:randomly $(ARGS)

docs: venv
	@$(PYTHON) -m tests.project.doc_tables

LOCKED := --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

# With the lowest matplotlib, newer releases of pyparsing warn; the tests need hypothesis.
lock:
	@command -v uv >/dev/null || { echo "make lock needs uv (pip install uv)" >&2; exit 2; }
	uv pip compile --quiet --universal --python-version 3.11 $(LOCKED) \
	    --extra library --extra test --group build $(ARGS) --output-file requirements.lock pyproject.toml
	printf '%s\n' 'pyparsing>=3.1,<3.3' 'hypothesis>=6.170' | uv pip compile --quiet --python-version 3.11 \
	    --resolution lowest-direct --upgrade $(LOCKED) --no-annotate --extra library --extra allure --extra xdist \
	    --output-file requirements.lowest pyproject.toml -

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis \
	    .ci/allure/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:
	@sed -n '/^# \{0,1\}/!q; s/^# \{0,1\}//p' Makefile

network: venv
	@sh .ci/network

# Two stamps, because the packages take long and the project itself does not.
venv: .venv/.packages .venv/.project

.venv/.packages: requirements.lock
	@python=$$(sh .ci/python) || exit $$?; \
	echo "setting up .venv (about 40 s, once)"; \
	"$$python" -m venv --clear .venv && \
	{ $(PYTHON) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock || { \
	    echo "the packages of requirements.lock could not be installed: is a package index within reach?" >&2; exit 1; }; }
	@touch $@

.venv/.project: pyproject.toml .venv/.packages
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation -e .
	@touch $@
