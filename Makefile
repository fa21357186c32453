# The usual commands. Everything also works without make.

.PHONY: all build packages demo pictures test short soak check ci

all: build

build: ## both programs, into bin/
	go build -o bin/ ./cmd/sheaf ./cmd/robotd

packages: ## .deb, .rpm and OCI images of both programs, into dist/; ARGS='--version 1.2.3'
	go run -C deploy/packages . $(ARGS)

demo: ## the whole service on loopback
	go run ./cmd/sheaf demo

pictures: ## docs/pictures of the pages, after six nights
	SHEAF_TEST_FULL=1 SHEAF_TEST_PICTURES=$(CURDIR)/docs/pictures go test -count=1 -run TestPictures ./cmd/sheaf/service

test: ## what every change must pass before it is sent
	go test ./...

short: ## the quick ones only
	go test -short ./...

soak: ## what searches for unknown faults, for an hour; MINUTES=600 for a night
	bash test/soak.sh $(MINUTES)

check: ## format, vet, staticcheck
	test -z "$$(gofmt -l .)"
	go vet ./...
	go run honnef.co/go/tools/cmd/staticcheck@v0.7.0 ./...

ci: ## everything, with the programs that tests need (installs Debian packages)
	bash .ci/run
