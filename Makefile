# make measure     measure on this machine: IPv4 and IPv6, native and through tunnels, HTTP and SMTP, design quick
# make report      make one page of the results in .ipperf/allure, or RESULTS=FOLDER, with Allure 3 (needs Node.js)
# make check       run ruff, mypy, the import contracts and the unit tests; two minutes
# make test        run the project's own tests, tier by tier, and print the time of each tier
# make lint        run ruff, mypy and the import contracts
# make servers     print the apt-get line that installs the real servers (Apache, Postfix, ProFTPD, Dovecot, BIND); as
#                  root, run it, and unpack Courier beside Dovecot, with which it conflicts in apt
# make evidence    run the long tests (simulations, truth, faults, A/A), every installed Python and the lowest
#                  dependencies, both commands in a minimal Debian 12 (as root), the throughput of the lab's four paths,
#                  the engines beside other tools, then make grids; hours
# make grids       measure the studies' full grids, those of routers and traffic in runs of 1 s, then response times under
#                  design standard, on real servers; 2 hours; resume a broken-off run by ARGS=--ipperf-resume=last
# make study-004   measure a part of paper 004's grid: three payloads, three games, two codecs, DNS; 9 minutes
# make docs        regenerate the tables of docs/ that are written from the code
# make lock        renew requirements.lock and requirements.lowest (needs uv)
# make clean       remove .venv and all other generated files except results
# make help        print this text
#
# Other arguments for pytest: make measure ARGS="--testbed=lab --connections=1,10,100"

PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest
SERVERS := apache2-bin postfix proftpd-core dovecot-imapd bind9

.PHONY: measure report check test lint types contracts servers evidence grids study-004 docs lock clean help venv network

# A lab with a link rate has tunnels for every user, and its links rather than the processor determine the figures.
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

# The hosts' Python may be older than the controller's; mypy finds uses of library parts that it lacks.
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
	@for each in throughput packets pacing rtt agreement file_transfer dns_load traffic hosts messages startup large_sessions; do $(PYTHON) benchmarks/$$each.py || exit $$?; done
	@$(MAKE) --no-print-directory grids

STUDY_000 := suites/response_time/test_response_time.py

# Design paper never judges, so pytest ends with status 10.
grids: venv
	@$(PYTEST) $(STUDY_000) --design=paper --ipperf-server=courier,real -p no:randomly $(ARGS) || [ $$? = 10 ]
	@$(PYTEST) suites/router --testbed=lab.100mbit --transport=native,isatap --design=paper --duration=1s \
	    -p no:randomly $(ARGS) || [ $$? = 10 ]
	@$(PYTEST) suites/traffic --testbed=lab.100mbit,pair.100mbit --transport=native,tunnel --design=paper \
	    --duration=1s -p no:randomly $(ARGS) || [ $$? = 10 ]
	@$(PYTEST) $(STUDY_000) --design=standard --ipperf-server=real -p no:randomly $(ARGS)

STUDY_004 := suites/traffic/test_traffic.py --testbed=lab.100mbit --transport=native -p no:randomly

study-004: venv
	@$(PYTEST) $(STUDY_004) --design=paper --duration=0.3s -k by_payload --payload=32,1408,65496 $(ARGS) || [ $$? = 10 ]
	@$(PYTEST) $(STUDY_004) --design=paper --duration=0.3s -k dns --outstanding=100 $(ARGS) || [ $$? = 10 ]
	@$(PYTEST) $(STUDY_004) --design=smoke -k "game or voice" $(ARGS) || [ $$? = 10 ]

docs: venv
	@$(PYTHON) -m tests.project.doc_tables

LOCKED := --generate-hashes --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock"

# Newer releases of pyparsing warn with the lowest matplotlib; the tests need hypothesis.
lock:
	@command -v uv >/dev/null || { echo "make lock needs uv (pip install uv)" >&2; exit 2; }
	uv pip compile --quiet --universal --python-version 3.11 $(LOCKED) \
	    --extra library --extra test --group build $(ARGS) --output-file requirements.lock pyproject.toml
	printf '%s\n' 'pyparsing>=3.1,<3.3' 'hypothesis>=6.170' | uv pip compile --quiet --python-version 3.11 \
	    --resolution lowest-direct --upgrade $(LOCKED) --no-annotate --extra library --extra allure --extra xdist \
	    --output-file requirements.lowest pyproject.toml -

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis \
	    .ci/allure/node_modules .ci/axe/node_modules
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:
	@sed -n '/^# \{0,1\}/!q; s/^# \{0,1\}//p' Makefile

network: venv
	@sh .ci/network

# Two stamps, because installing the packages is slow and installing the project is fast.
venv: .venv/.packages .venv/.project

.venv/.packages: requirements.lock
	@python=$$(sh .ci/python) || exit $$?; \
	echo "setting up .venv (about 40 s, once)"; \
	"$$python" -m venv --clear .venv && \
	{ $(PYTHON) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock || { \
	    echo "the packages of requirements.lock could not be installed; is a package index reachable?" >&2; exit 1; }; }
	@touch $@

.venv/.project: pyproject.toml .venv/.packages
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation -e .
	@touch $@
