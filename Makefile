# make test works on a machine with Go, make and git alone; what needs a server
# that make test-servers installs is skipped without it. make check is what a
# change must pass, and installs the tools it needs at the versions named here.

GO ?= go

GOLANGCI_LINT_VERSION := v2.15.0
GOFUMPT_VERSION       := v0.12.0
GOVULNCHECK_VERSION   := v1.9.0

# Tools live outside the checkout, one folder per version, so that a cached one
# is the one that was asked for.
TOOLS ?= $(or $(REDRIVECTL_TOOLS),$(or $(XDG_CACHE_HOME),$(HOME)/.cache)/redrivectl-tools)
GOLANGCI_LINT := $(TOOLS)/golangci-lint-$(GOLANGCI_LINT_VERSION)/golangci-lint
GOFUMPT       := $(TOOLS)/gofumpt-$(GOFUMPT_VERSION)/gofumpt
GOVULNCHECK   := $(TOOLS)/govulncheck-$(GOVULNCHECK_VERSION)/govulncheck

GENERATED := docs/commands docs/man docs/config.schema.json docs/envelope.schema.json completions

FUZZ_SECONDS       ?= 5
FUZZ_TOTAL_SECONDS ?= 300

.PHONY: help
help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

.PHONY: build
build: ## Build dist/redrivectl
	$(GO) build -trimpath -o dist/redrivectl .

.PHONY: test
test: ## Run all tests
	$(GO) test -timeout 45m ./...

.PHONY: test-race
test-race: ## Run all tests with the race detector
	$(GO) test -race -timeout 45m ./...

.PHONY: test-crash
test-crash: ## Kill the real binary at each step boundary
	$(GO) test -timeout 30m -tags crashpoints -parallel 8 -run 'Crash|Points' ./...

# SEED=4711 runs that schedule alone and prints its trace.
SEEDS ?= 3000
.PHONY: sim
sim: ## Run SEEDS schedules of the fault simulation, or SEED alone with its trace
	$(GO) test ./internal/sim -count=1 -timeout 60m -v -run '^TestSim$$' $(if $(SEED),-seed $(SEED),-seeds $(SEEDS))

MUTANTS ?= .
.PHONY: sim-mutants
sim-mutants: ## See that the fault simulation catches each mistake of internal/sim/mutants
	$(GO) test ./internal/sim -count=1 -timeout 120m -v -run '^TestMutants' -mutants '$(MUTANTS)'

.PHONY: test-servers
test-servers: ## Install the independent servers that tests also run against; needs Node 20
	npm ci --prefix internal/testservers/node --ignore-scripts --no-audit --no-fund --loglevel=error

.PHONY: bench
bench: ## Run the benchmarks
	$(GO) test -run '^$$' -bench . -benchmem ./...

# BENCH_MESSAGES=500 BENCH_LATENCIES=0s is a smoke run; docs/benchmarks.md has the rest.
.PHONY: bench-sqs
bench-sqs: export BENCH_MESSAGES ?= 10000,100000
bench-sqs: ## Run SQS against a bare mover
	$(GO) test -run '^$$' -bench '^BenchmarkSQS$$' -benchtime 1x -timeout 4h ./cmd

.PHONY: fuzz
fuzz: ## Fuzz each target for FUZZ_SECONDS, all within FUZZ_TOTAL_SECONDS
	@GO="$(GO)" .ci/fuzz $(FUZZ_SECONDS) $(FUZZ_TOTAL_SECONDS)

.PHONY: docs
docs: ## Write the command and manual pages, completions and JSON Schemas
	$(GO) run . gen .

.PHONY: pictures
pictures: ## Draw the pictures of docs/triage.md anew, from the demo
	$(GO) test ./cmd -run '^TestTriagePictures$$' -count=1 -pictures

.PHONY: docs-clean
docs-clean: docs ## Fail if the generated files differ from what is committed
	@test -z "$$(git status --porcelain -- $(GENERATED))" || { git status --short -- $(GENERATED); echo "generated files differ: commit what make docs wrote" >&2; exit 1; }

.PHONY: format
format: $(GOFUMPT) ## Format all Go files
	@git ls-files -co --exclude-standard '*.go' | xargs $(GOFUMPT) -w

.PHONY: format-clean
format-clean: $(GOFUMPT) ## Fail if a Go file is not formatted
	@files="$$(git ls-files -co --exclude-standard '*.go' | xargs $(GOFUMPT) -l)" && test -z "$$files" || { echo "not formatted: $$files" >&2; exit 1; }

.PHONY: lint
lint: $(GOLANGCI_LINT) ## Vet and lint, in both builds
	$(GO) vet ./...
	$(GO) vet -tags crashpoints ./...
	$(GOLANGCI_LINT) run ./...
	$(GOLANGCI_LINT) run --build-tags crashpoints ./...

.PHONY: tidy-clean
tidy-clean: ## Fail if go.mod or go.sum is not tidy
	$(GO) mod tidy -diff
	$(GO) mod verify

.PHONY: vuln
vuln: $(GOVULNCHECK) ## Look for known vulnerabilities, where the database is reachable
	@.ci/vuln $(GOVULNCHECK)

.PHONY: check
check: format-clean tidy-clean lint test-race test-crash docs-clean fuzz vuln ## All that a change must pass

.PHONY: tools
tools: $(GOLANGCI_LINT) $(GOFUMPT) $(GOVULNCHECK) ## Install the tools

$(GOLANGCI_LINT):
	GOFLAGS= GOBIN=$(@D) $(GO) install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)

$(GOFUMPT):
	GOFLAGS= GOBIN=$(@D) $(GO) install mvdan.cc/gofumpt@$(GOFUMPT_VERSION)

$(GOVULNCHECK):
	GOFLAGS= GOBIN=$(@D) $(GO) install golang.org/x/vuln/cmd/govulncheck@$(GOVULNCHECK_VERSION)
