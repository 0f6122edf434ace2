# Every target stands alone; `make help` lists them.
GO       ?= go
# The race detector needs a C compiler. Where there is none the tests run without it and say so.
RACE     := $(shell command -v gcc >/dev/null 2>&1 || command -v cc >/dev/null 2>&1 && echo -race)
PKGS     ?= ./...
T        ?= 30s
TARGETS  := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
LDFLAGS  := -s -w -X main.version=$(VERSION)

.PHONY: help build test short lint fuzz bench generate cross tidy-check clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 16

build: ## bin/kbroker, one static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '$(LDFLAGS)' -o bin/kbroker ./cmd/kbroker

test: ## everything that needs only Go; with the race detector where a C compiler is found
	@test -n "$(RACE)" || echo "no C compiler: testing without the race detector"
	$(GO) vet $(PKGS)
	$(GO) test $(RACE) -timeout 10m $(PKGS)

short: ## the quick half of the tests, without the race detector
	$(GO) test -short $(PKGS)

lint: ## golangci-lint, see .golangci.yml
	golangci-lint run ./...

fuzz: ## every fuzz target for T (default 30s) each
	@for p in $$($(GO) list ./...); do \
	  for f in $$($(GO) test -list '^Fuzz' $$p | grep '^Fuzz'); do \
	    echo "$$p $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(T) $$p || exit 1; \
	  done; \
	done

bench: ## throughput, latency and footprint beside yardsticks measured in the same run
	$(GO) run ./test/bench

generate: ## rewrite generated documents and golden files; read the diff before committing it
	$(GO) generate ./...

cross: ## build for every system that we promise
	@for t in $(TARGETS); do \
	  echo $$t; CGO_ENABLED=0 GOOS=$${t%/*} GOARCH=$${t#*/} $(GO) build -o /dev/null ./cmd/kbroker || exit 1; \
	done

tidy-check: ## fail when generated files or go.mod are not up to date
	$(GO) mod tidy -diff
	$(GO) generate ./...
	git diff --exit-code

clean: ## remove build products
	rm -rf bin

-include test/compat/compat.mk
