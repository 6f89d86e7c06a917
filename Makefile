# dlq-manager. `make` alone lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
LDFLAGS := -s -w -X github.com/dlq-manager/dlq-manager/pkg/telemetry.version=$(VERSION)
PROGRAMS := api ingester archiver
TOOLS := $(CURDIR)/bin/tools
GOLANGCI_LINT_VERSION := v2.15.0
OAPI_CODEGEN := go run github.com/oapi-codegen/oapi-codegen/v2/cmd/oapi-codegen@v2.8.2
GOLANGCI_LINT := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)
PROMTOOL_VERSION := v0.315.0
PROMTOOL := $(TOOLS)/promtool-$(PROMTOOL_VERSION)
MONITORING := deploy/k8s/components/monitoring
GOVULNCHECK_VERSION := v1.8.0
GOVULNCHECK := $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION)
CYCLONEDX_VERSION := v1.7.0
CYCLONEDX := $(TOOLS)/cyclonedx-gomod-$(CYCLONEDX_VERSION)
GO_LICENSES_VERSION := v2.0.1
GO_LICENSES := $(TOOLS)/go-licenses-$(GO_LICENSES_VERSION)
GORELEASER_VERSION := v2.15.1
GORELEASER := $(TOOLS)/goreleaser-$(GORELEASER_VERSION)
STACK := go run ./integration/stack/cmd/stack
WEB := pkg/console/web
ASSETS := pkg/console/static/vendor

# Tests that wait for a server in vain must end by themselves.
# make lint runs vet; without it a fresh clone's tests need a fifth less processor time to compile.
TEST_FLAGS ?= -timeout 25m -vet=off

# The folders of all Go modules, with the programs' module first: the files that git tracks or
# could add, or in an unpacked archive all files.
MODULES := ./ $(filter-out ./,$(dir $(wildcard $(or $(shell git ls-files -co --exclude-standard '*go.mod' 2>/dev/null), \
	$(shell find . -name go.mod -not -path './bin/*' -not -path '*/node_modules/*')))))

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN {FS = ":.*## "} /^[a-zA-Z_\/-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: run
run: build ## Run the demo: real Kafka and PostgreSQL, the programs, and a shop whose consumers fail. Ctrl-C ends it.
	@cd integration/demo && go build -o $(CURDIR)/bin/dlq-manager-demo .
	@exec bin/dlq-manager-demo

.PHONY: build
build: assets ## Build the three programs into bin/.
	@mkdir -p bin
	@for p in $(PROGRAMS); do CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/dlq-manager-$$p ./cmd/$$p; done

# Without them the pages are plain HTML, as `go build ./cmd/api` alone builds them.
.PHONY: assets
assets: $(ASSETS) ## Download the libraries of the console's pages if they are missing.

$(ASSETS): $(WEB)/package.json $(WEB)/package-lock.json $(WEB)/vendor.mjs
	@command -v npm >/dev/null || { echo "npm is needed for the console's libraries and is missing: install Node.js 20 or newer" >&2; exit 1; }
	@cd $(WEB) && npm ci --ignore-scripts --include=dev --no-audit --no-fund --loglevel=error >/dev/null && node vendor.mjs
	@touch $(ASSETS)

.PHONY: browser
browser: ## Find Chromium for the tests, or install it as root with apt-get.
	@cd integration/browser && go run ./cmd/chromium

# Prints what this machine lacks for the tests, before they start.
.PHONY: needs
needs:
	@integration/needs.sh >/dev/null

LEFT_OUT = left_out=$$(integration/needs.sh 2>/dev/null)
SKIP = $${left_out:+-skip "$$left_out"}

# Two modules at a time: most tests of the console wait for the browser. The tests of whole programs take longest, so
# they begin first.
.PHONY: test
test: needs assets browser ## Run every test against real servers, which are started once and stopped at the end.
	@$(LEFT_OUT); export left_out; $(STACK) -fast -- bash -euo pipefail -c 'printf "%s\n" $(MODULES) | xargs -P 2 -I{} \
		bash -euc "cd {} && go test -shuffle=on $(TEST_FLAGS) \$${left_out:+-skip \"\$$left_out\"} \$$(ls -d ./integration 2>/dev/null) ./..."'

.PHONY: test-browser
test-browser: assets browser ## Run only the browser tests; screenshots are in bin/screenshots.
	@SCREENSHOTS=$${SCREENSHOTS:-$(CURDIR)/bin/screenshots} $(STACK) -fast -- bash -euc 'cd integration/browser && go test $(TEST_FLAGS) -count=1 -v ./...'

.PHONY: test-unit
test-unit: ## Run the tests that need no server, with the race detector.
	@go test -race -shuffle=on $(TEST_FLAGS) ./pkg/entity/... ./pkg/deadletter/... ./pkg/config/... ./pkg/secret/... \
		./pkg/telemetry/... ./pkg/archive ./pkg/archive/tier/internal/file ./pkg/rest/... ./pkg/repository/memory/...

# Of the tests of PostgreSQL, only the promises of every store and the one about deadlocks: with the race detector, all
# of them had not ended after nine minutes on a busy machine, and these take less than two.
.PHONY: test-race-ci
test-race-ci: ## Run the tests of ingest, redrives and the store with the race detector, on real servers.
	@$(STACK) -fast -- bash -euc 'go test -race -shuffle=on $(TEST_FLAGS) ./pkg/redrive/... ./pkg/ingest/... ./pkg/republisher/...; \
		go test -race -shuffle=on $(TEST_FLAGS) -run "^(TestRepository|TestDeadlockIsTriedAgain)\$$" ./pkg/repository/postgres'

.PHONY: test-race
test-race: ## Run every test of the library with the race detector.
	@$(STACK) -fast -- go test -race -shuffle=on $(TEST_FLAGS) ./pkg/... ./cmd/...

.PHONY: test-integration
test-integration: needs ## Run only the tests of the whole programs against real servers.
	@$(LEFT_OUT); $(STACK) -fast -- bash -euc \
		'for m in . shop demo; do (cd integration/$$m && go test $(TEST_FLAGS) $(SKIP) -v .); done'

# Every test that docs/failure-modes.md names, and every test that begins with TestFault.
# A long run repeats each fault more often, and soaks for ten minutes.
FAULT_TESTS = ^($(shell grep -ohE '`(Test|Fuzz)[A-Z][A-Za-z0-9_]*' docs/failure-modes.md | tr -d '`' | sort -u | paste -sd'|')|TestFault.*)$$
FAULT_FLAGS ?= -timeout 90m -parallel 3

# An older version of Kafka that must work too, and the tests that prove it: ingest, retry, crashes, topics made
# again, and outcomes by committed offset.
OLDER_KAFKA := 4.1.2
OLDER_KAFKA_TESTS := TestStart|TestEndToEnd|TestFaultKilledAtNamedMoments|TestFaultProduceAnswersLost|TestTopicMadeAgainLosesNothing|TestRestartedConsumerGroupKeepsCommittedOffsets|TestRealServersRedirect|TestGroupStates

# The tests that run on three brokers too. TestFaultCluster starts its own.
CLUSTER_TESTS := TestEndToEnd|TestKilledAPIFinishesItsRedrive|TestRollingRestartLosesNothing|TestZombieIngester|TestFaultHundredClicks|TestFaultTopicGrows|TestFaultTargetMissing|TestFaultTargetGrows|TestFaultRetentionWasFaster|TestTopicMadeAgainLosesNothing|TestRestartedConsumerGroupKeepsCommittedOffsets

.PHONY: test-faults
test-faults: needs assets ## Break servers, connections and programs, longer and more often than `make test` does.
	@DLQ_MODEL_COUNT=10000 go test $(TEST_FLAGS) -count=1 -run '^TestModel$$' ./pkg/redrive
	@$(LEFT_OUT); DLQ_TEST_LONG=1 $(STACK) -fast -- go test $(FAULT_FLAGS) $(SKIP) -count=1 -v -run '$(FAULT_TESTS)' ./...
	@DLQ_TEST_LONG=1 $(STACK) -fast -- bash -euc \
		"cd integration/schemas && go test $(FAULT_FLAGS) -count=1 -v -run '^(TestMassRepair$$|TestFault)' ."
	@$(LEFT_OUT); export left_out; DLQ_TEST_LONG=1 $(STACK) -fast -- bash -euc \
		'cd integration/frameworks && go test $(FAULT_FLAGS) $(SKIP) -count=1 -v .'
	@DLQ_STACK_KAFKA_VERSION=$(OLDER_KAFKA) $(STACK) -fast -- go test $(FAULT_FLAGS) -count=1 -v -run '^($(OLDER_KAFKA_TESTS))$$' \
		./integration/stack ./integration ./pkg/redrive ./pkg/broker
	@$(STACK) -fast -kafka-cluster -- go test $(FAULT_FLAGS) -count=1 -v -run '^($(CLUSTER_TESTS))$$' ./integration

# The output has the seed. DLQ_SOAK_SEED=... repeats the same faults.
.PHONY: soak
soak: ## Run everything under load with every fault in turn, for ten minutes; then check that nothing was lost.
	@DLQ_TEST_LONG=1 $(STACK) -fast -- go test -timeout 30m -count=1 -v -run '^TestSoak$$' ./integration

# BENCH_FLAGS="-only ingest,retry -scale 0.1" runs fewer measurements and writes no page.
PAIRS ?= 6
BENCH_FLAGS ?=
.PHONY: bench
bench: ## Measure the programs and write docs/benchmarks.md; with BASE=COMMIT compare them with a commit's programs.
	@cd integration/bench && go run . $(if $(BASE),-base $(BASE) -pairs $(PAIRS),$(if $(BENCH_FLAGS),,-write)) $(BENCH_FLAGS)

# For benchstat: make -s bench-go > before.txt, change, make -s bench-go > after.txt, benchstat before.txt after.txt
.PHONY: bench-go
bench-go: ## Run the Go benchmarks of all packages, six times each.
	@$(STACK) -fast -- go test -run '^$$' -bench . -benchmem -count 6 -timeout 30m \
		$$(grep -rl --include='*_test.go' '^func Benchmark' cmd pkg | xargs -n 1 dirname | sort -u | sed 's|^|./|')

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Run go vet and the linters.
	@for module in $(MODULES); do (cd $$module && go vet ./... && $(GOLANGCI_LINT) run ./...); done

$(GOLANGCI_LINT):
	@mkdir -p $(TOOLS)
	@GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
	@mv $(TOOLS)/golangci-lint $@

.PHONY: rules
rules: $(PROMTOOL) ## Check the Prometheus rules, and that alerts fire and clear when they should.
	@$(PROMTOOL) check rules --lint=all --lint-fatal $(MONITORING)/rules.yaml
	@$(PROMTOOL) test rules $(MONITORING)/tests/*.yaml
	@PROMTOOL=$(PROMTOOL) go test -count=1 -run '^TestPromQLIsPromQL$$' ./docs

# install builds a tool in a temporary module that pins it. `go install` fails for these
# tools: their module has replace directives, or a proxy does not list its versions.
define install
	@mkdir -p $@.build
	@cd $@.build && printf 'module tools\n\ngo 1.26\n\nrequire $(1) $(2)\n' >go.mod && go build -mod=mod -o $@ $(1)$(3)
	@rm -r $@.build
endef

$(PROMTOOL):
	$(call install,github.com/prometheus/prometheus,$(PROMTOOL_VERSION),/cmd/promtool)

.PHONY: tidy-check
tidy-check: ## Fail when go.mod, go.sum or the formatting differs from the output of the tools.
	@for module in $(MODULES); do (cd $$module && go mod tidy -diff); done
	@test -z "$$(gofmt -l $$(git ls-files '*.go'))" || { echo "not gofmt-ed:"; gofmt -l $$(git ls-files '*.go'); exit 1; }

.PHONY: generate
generate: ## Generate clients/go and docs/api.md from the OpenAPI document, docs/configuration.md from the settings, and the operator's copy of the rules.
	@cd clients/go && $(OAPI_CODEGEN) -config oapi-codegen.yaml ../../pkg/rest/openapi/openapi.yaml
	@go run ./cmd/internal/apidoc docs/api.md
	@go run ./cmd/internal/configdoc configs/config.yaml docs/configuration.md
	@sed -i '/^spec:$$/q' $(MONITORING)/prometheus-rule.yaml && sed 's/^./  &/' $(MONITORING)/rules.yaml >>$(MONITORING)/prometheus-rule.yaml

.PHONY: generate-check
generate-check: generate ## Fail when a generated file is out of date.
	@git diff --exit-code -- clients/go docs/api.md docs/configuration.md $(MONITORING)/prometheus-rule.yaml || { echo "run make generate"; exit 1; }

# The vulnerability check comes last, because only it needs network access beyond that of the
# build: all other problems have been reported by then.
.PHONY: release-check
release-check: tidy-check generate-check lint rules modules-verify licences sbom reproducible release-notes snapshot vulncheck ## Check everything that a release of VERSION needs, except its tests.
	@echo "release-check: $(VERSION) passes every check of release-check"

.PHONY: modules-verify
modules-verify: ## Fail when a module does not match go.sum.
	@for module in $(MODULES); do (cd $$module && go mod verify); done

# Shipped modules may only have licences that require attribution. Modules that only tests use
# may also require that changes to them are published. A test checks npm packages against the
# first list.
LICENCES := MIT,BSD-2-Clause,BSD-3-Clause,Apache-2.0,ISC,0BSD
LICENCES_OF = $(GO_LICENSES) check --ignore github.com/dlq-manager/dlq-manager

.PHONY: licences
licences: $(GO_LICENSES) ## Fail when a Go module has a licence that is not allowed.
	@log=$$(mktemp); trap 'rm "$$log"' EXIT; \
	$(LICENCES_OF) --allowed_licenses=$(LICENCES) $(addprefix ./cmd/,$(PROGRAMS)) 2>$$log \
		&& $(LICENCES_OF) --allowed_licenses=$(LICENCES),MPL-2.0 --include_tests ./... 2>$$log \
		|| { grep -v 'non-Go code\|^/' $$log >&2; exit 1; }

# Without time and serial number, equal sources give equal bills.
.PHONY: sbom
sbom: build $(CYCLONEDX) ## Write the software bills of materials (CycloneDX) of the programs and the console's scripts to bin/sbom.
	@rm -rf bin/sbom && mkdir -p bin/sbom
	@for p in $(PROGRAMS); do GOPROXY=off $(CYCLONEDX) bin -json -std -noserial -licenses -assert-licenses -version $(VERSION) \
		-output bin/sbom/dlq-manager-$$p.cdx.json bin/dlq-manager-$$p 2>/dev/null; done
	@cd $(WEB) && npm sbom --package-lock-only --omit=dev --sbom-format=cyclonedx --loglevel=error >$(CURDIR)/bin/sbom/console.cdx.json
	@sed -i '/^ *"timestamp": /d; /^ *"serialNumber": /d' bin/sbom/*.json
	@grep -c '"purl"' bin/sbom/*.json

.PHONY: reproducible
reproducible: assets ## Build the programs twice in different folders and fail when they differ.
	@places=$$(mktemp -d); trap 'rm -rf "$$places"' EXIT; \
	for place in one an/other; do \
		mkdir -p $$places/$$place/src; \
		tar -c --exclude=node_modules go.mod go.sum cmd pkg migrations | tar -xC $$places/$$place/src; \
		for p in $(PROGRAMS); do (cd $$places/$$place/src && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags '$(LDFLAGS)' -o ../out/dlq-manager-$$p ./cmd/$$p); done; \
		export GOCACHE=$$places/cache; \
	done; \
	diff -r $$places/one/out $$places/an/other/out; \
	cd $$places/one/out && sha256sum *

.PHONY: release-notes
release-notes: ## Write the change log of VERSION, or the unreleased section, to bin/release-notes.md.
	@mkdir -p bin
	@for v in $(VERSION:v%=%) Unreleased; do \
		awk -v heading="## [$$v]" '/^## /{on = index($$0, heading) == 1; next} on' CHANGELOG.md | sed '/./,$$!d' >bin/release-notes.md; \
		! test -s bin/release-notes.md || break; \
	done; \
	test -s bin/release-notes.md || { echo "CHANGELOG.md has no section for $(VERSION), and no unreleased section" >&2; exit 1; }

.PHONY: snapshot
snapshot: assets $(GORELEASER) ## Build the archives of a release in dist/, without publishing them.
	@$(GORELEASER) check
	@$(GORELEASER) release --snapshot --clean --skip=publish

# `go install` with a version fails for these modules too; see install above.
$(CYCLONEDX):
	$(call install,github.com/CycloneDX/cyclonedx-gomod,$(CYCLONEDX_VERSION),/cmd/cyclonedx-gomod)

$(GO_LICENSES):
	$(call install,github.com/google/go-licenses/v2,$(GO_LICENSES_VERSION))

$(GORELEASER):
	$(call install,github.com/goreleaser/goreleaser/v2,$(GORELEASER_VERSION))

# VULNDB=file:///folder uses a copy of the database. A check that could not run fails like one
# that found something; VULN_UNCHECKED=yes accepts it with a message.
.PHONY: vulncheck
vulncheck: assets $(GOVULNCHECK) ## Fail when the programs can reach a known vulnerability.
	@code=0; $(GOVULNCHECK) $(if $(VULNDB),-db $(VULNDB)) $(addprefix ./cmd/,$(PROGRAMS)) || code=$$?; \
	case $$code in \
	0) ;; \
	3) echo "vulncheck: the programs can reach known vulnerabilities" >&2; exit 1 ;; \
	*) echo "vulncheck: NOT CHECKED: the vulnerability database could not be read" >&2; \
	   test "$(VULN_UNCHECKED)" = yes || { echo "vulncheck: set VULNDB to a copy, or accept this with VULN_UNCHECKED=yes" >&2; exit 1; } ;; \
	esac

$(GOVULNCHECK):
	@mkdir -p $(TOOLS)
	@GOBIN=$(TOOLS) go install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
	@mv $(TOOLS)/govulncheck $@

.PHONY: stack
stack: ## Start only Kafka and PostgreSQL and print their addresses. Ctrl-C ends them.
	@$(STACK)

.PHONY: migrate
migrate: build ## Migrate the database of configs/config.yaml to the newest schema.
	@bin/dlq-manager-api migrate up

.PHONY: clean
clean: ## Remove build results.
	@rm -rf bin dist $(ASSETS) $(WEB)/node_modules
