# make help lists the targets.
GO      ?= go
BIN     := bin/kubectl-mesh_audit
TOOL    := $(GO) tool -modfile=tools/go.mod
PKGS    := ./...

# The same for all, so that nothing is built twice; only the race detector needs cgo.
CGO_ENABLED := 0
GOFLAGS     += -trimpath
export CGO_ENABLED GOFLAGS

.DEFAULT_GOAL := help
.PHONY: bench dist dist-check e2e e2e-build e2e-dist e2e-krew vuln help build demo test race lint vet tidy generate check-generate check conformance conformance-build conformance-full conformance-record pushes-record clean

help: ## List the targets
	@awk -F':.*## ' '/^[a-z0-9-]+:.*## /{printf "  %-19s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## Build the plugin to bin/
	$(GO) build -ldflags '-s -w' -o $(BIN) ./cmd/kubectl-mesh_audit

demo: build ## Show the main job on the embedded demo mesh
	$(BIN) scope --demo

# make lint vets what is tested here.
test: ## Run the tests
	$(GO) test -vet=off $(PKGS)

# The scripts start a process for each command, which alone takes most of the time
# under the detector; what runs in parallel in them, the other tests run, too.
race: ## Run the tests of what runs in parallel under the race detector
	CGO_ENABLED=1 $(GO) test -race -vet=off -short -skip TestScripts ./audit ./audit/mesh ./audit/load ./audit/revision ./audit/verify ./plugin

lint: ## Run golangci-lint, which vets, too
	$(TOOL) golangci-lint run

# Minutes, the first time, for a process for each package of Istio and Kubernetes.
vet: ## Vet the modules that make lint does not look at
	cd conformance && $(GO) vet ./...
	cd e2e && $(GO) vet ./...

tidy: ## Check that go.mod is tidy
	$(GO) mod tidy -diff

generate: ## Make the generated documents again
	$(GO) generate $(PKGS)

check-generate: generate ## Fail if a generated document is not current
	git diff --exit-code -- docs

check: tidy lint check-generate test race ## What CI runs, but for what takes other programs

CONFORM := cd conformance && bin/conform -plugin ../$(BIN) -judge bin/judge -complete -q
CASES   := $(wildcard testdata/cases/*/input.yaml testdata/cases/*/base.yaml testdata/cases/*/head.yaml)
REGRESS := $(wildcard testdata/regressions/*.yaml)
# Random meshes with fixed seeds; conformance-full has fresh ones, from BASE on.
SEEDS   ?= 50
FULL    ?= 2000
BASE    ?= $(shell date +%s)

conformance-build: build ## Build the judge and what goes with it (needs the Go module proxy)
	cd conformance && $(GO) build -o bin/ ./cmd/...

VERSION   ?= v0.1.0
PLATFORMS ?=

dist: ## Build the archives, checksums and krew manifest of a release to dist/ (PLATFORMS=linux/amd64,...: of these only)
	$(GO) run ./internal/dist -version $(VERSION) -only '$(PLATFORMS)'

KUBE := v1.37.2
KUBE_FLAGS := -X k8s.io/component-base/version.gitVersion=$(KUBE) -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=37

# Unlike go build, go run keeps what it has linked in the build cache.
LINK := $(GO) run -exec 'cp -f'

e2e-krew:
	mkdir -p e2e/bin
	cd e2e && for main in k8s.io/kubernetes/cmd/kubectl sigs.k8s.io/krew/cmd/krew sigs.k8s.io/krew/cmd/validate-krew-manifest; do \
	  $(LINK) -ldflags '-s -w $(KUBE_FLAGS)' $$main bin/$$(basename $$main) || exit 1; done

e2e-build: e2e-krew ## Build the API server, kubectl, krew and istiod that make e2e runs, to e2e/bin
	cd e2e && $(LINK) -ldflags '-s -w $(KUBE_FLAGS)' k8s.io/kubernetes/cmd/kube-apiserver bin/kube-apiserver
	cd e2e && $(LINK) -ldflags '-s -w' go.etcd.io/etcd/server/v3 bin/etcd
	cd conformance && for main in istio.io/istio/pilot/cmd/pilot-discovery istio.io/istio/istioctl/cmd/istioctl; do \
	  $(LINK) -ldflags '-s -w' $$main ../e2e/bin/$$(basename $$main) || exit 1; done

e2e-dist:
	$(GO) run ./internal/dist -version $(VERSION) -only $$($(GO) env GOOS)/$$($(GO) env GOARCH) -o e2e/bin/dist

e2e: build ## Run the plugin against a real API server, kubectl, krew and istiod
	$(MAKE) -j 2 e2e-dist e2e-build
	cd e2e && $(GO) test -vet=off -count=1 -parallel 4 -timeout 30m -v .

dist-check: ## Build the release and check its manifest and every archive with krew's own tool
	$(MAKE) -j 2 dist e2e-krew
	cd e2e && MESH_AUDIT_PLATFORMS='$(PLATFORMS)' $(GO) test -vet=off -count=1 -v ./release

vuln: ## Look for known vulnerabilities in what the plugin calls (needs the network)
	$(TOOL) govulncheck ./...

# The judge is lenient: the regressions api-* set fields together that Istio's
# validation refuses, to have them all judged.
conformance: conformance-build ## Compare with istiod's own generators: samples, cases, shapes, regressions, $(SEEDS) random meshes
	cd conformance && MESH_AUDIT_JUDGE=$(CURDIR)/conformance/bin/judge $(GO) test -vet=off ./...
	cd conformance && rm -rf bin/seeds bin/samples-meshes bin/shapes && bin/genmesh -seed 1 -n $(SEEDS) -o bin/seeds && \
	  bin/genmesh -shape all -o bin/shapes && bin/samples -o bin/samples-meshes
	$(CONFORM) -lenient -bytes-bars -rules ../docs/rules.md $(addprefix ../,$(CASES) $(REGRESS)) bin/shapes/* bin/seeds/* bin/samples-meshes/*

conformance-full: conformance-build ## Compare on $(FULL) random meshes with fresh seeds (BASE=N: from seed N on; goes on where it was stopped)
	@echo "seeds from $(BASE); to go on: make conformance-full BASE=$(BASE) FULL=$(FULL)"
	cd conformance && rm -rf bin/full && bin/genmesh -seed $(BASE) -n $(FULL) -o bin/full
	$(CONFORM) -bytes-bars bin/full/*

conformance-record: ## Record the judge's answers for the ordinary tests (testdata/oracle, testdata/regressions); LINE=1.28.10 COPY=... for an older Istio
	conformance/record.sh 1 $(SEEDS) $(LINE) $(COPY)

pushes-record: conformance-build ## Record what Istio's own server sends to connected proxies because of a change (testdata/pushes)
	conformance/record-pushes.sh

BENCH     ?= .
BENCHTIME ?= 2x

bench: ## Run the benchmarks of every stage on large meshes, and istiod's own generators on the same meshes
	$(GO) test -run - -bench '$(BENCH)' -benchmem -benchtime $(BENCHTIME) ./internal/bigmesh
	mkdir -p bin && $(GO) build -o bin/bigmesh ./internal/bigmesh/cmd
	cd conformance && $(GO) build -o bin/ ./cmd/generate
	for shape in open scoped; do bin/bigmesh -shape $$shape -format yaml -o bin/$$shape.yaml && \
	  conformance/bin/generate -f bin/$$shape.yaml -sample 30 -predicted $$(bin/bigmesh -shape $$shape -measure) || exit 1; done

clean:
	rm -rf bin dist conformance/bin e2e/bin
