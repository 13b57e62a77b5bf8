# make help lists the targets.
GO      ?= go
BIN     := bin/kubectl-mesh_audit
TOOL    := $(GO) tool -modfile=tools/go.mod
PKGS    := ./...

.DEFAULT_GOAL := help
.PHONY: help build demo test race lint vet tidy generate check-generate check conformance conformance-record clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build the plugin to bin/
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $(BIN) ./cmd/kubectl-mesh_audit

demo: build ## Show the main job on the embedded demo mesh
	$(BIN) scope --demo

test: ## Run the tests
	$(GO) test $(PKGS)

race: ## Run the tests of what runs in parallel under the race detector
	$(GO) test -race -short ./audit/load/... ./plugin/...

lint: ## Run golangci-lint
	$(TOOL) golangci-lint run

vet:
	$(GO) vet $(PKGS)

tidy: ## Check that go.mod is tidy
	$(GO) mod tidy -diff

generate: ## Make the generated documents again
	$(GO) generate $(PKGS)

check-generate: generate ## Fail if a generated document is not current
	git diff --exit-code -- docs

check: vet tidy lint check-generate test race ## All that CI runs

CONFORM := CGO_ENABLED=0 $(GO) build -trimpath -o bin/ ./cmd/...
SEEDS   ?= 60

conformance: build ## Compare with istiod's own generators: the cases, Istio's samples, random meshes
	cd conformance && $(CONFORM) && CGO_ENABLED=0 $(GO) test -trimpath ./...
	cd conformance && rm -rf bin/meshes bin/samples-meshes && \
	  bin/genmesh -seed 1 -n $(SEEDS) -o bin/meshes && bin/samples -o bin/samples-meshes && \
	  bin/conform -plugin ../$(BIN) -judge bin/judge -complete -q bin/meshes/* bin/samples-meshes/*

conformance-record: ## Record the judge's answers for the ordinary tests (testdata/oracle)
	conformance/record.sh 1 $(SEEDS)

clean:
	rm -rf bin conformance/bin
