# agent9. What a fresh machine needs: Go. `make demo` and `make test` are all
# the set-up there is.

GO ?= go

.PHONY: build demo test test-kernels bench cross check install clean

build:
	$(GO) build -o bin/ ./cmd/agentd ./cmd/agentctl

# Shows an agent's life in a temporary folder, and cleans up.
demo: build
	./demo/run.sh

# Everything that this machine can run, and at the end what was skipped and
# why. As root on Debian it first installs what the full run needs (DEPS=no
# prevents it).
test: check
	./conformance/deps.sh
	$(GO) tool gotestsum --format standard-quiet -- -race -timeout 30m $(TESTFLAGS) ./...

# The kernel's own 9P client on more kernels.
test-kernels: build
	./conformance/deps.sh
	./conformance/v9fs/kernels.sh
	AGENT9_KERNELS=all $(GO) test -count=1 -timeout 60m -run 'TestClients/v9fs' -v ./conformance

bench:
	$(GO) test -run '^$$' -bench . -benchmem ./...

# agentd builds for three systems, agentctl for five.
cross:
	for os in linux darwin freebsd; do GOOS=$$os CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/agentd || exit 1; done
	for os in linux darwin freebsd windows plan9; do GOOS=$$os CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/agentctl || exit 1; done

check:
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo 'run gofmt -w .' >&2; exit 1; }
	$(GO) vet ./...

install:
	$(GO) install ./cmd/agentd ./cmd/agentctl

clean:
	rm -rf bin
