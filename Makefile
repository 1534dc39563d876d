# agent9. What a fresh machine needs: Go. `make demo` and `make test` are all
# the set-up there is.

GO ?= go

.PHONY: build demo test soak test-kernels fuzz bench cross check vuln install clean

build:
	$(GO) build -o bin/ ./cmd/agentd ./cmd/agentctl
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w' -o bin/ ./cmd/a9

# Shows an agent's life in a temporary folder, and cleans up.
demo: build
	./demo/run.sh

# Everything that this machine can run, and at the end what was skipped and
# why. As root on Debian it first installs what the full run needs (DEPS=no
# prevents it).
test: check
	./conformance/deps.sh
	$(GO) tool gotestsum --format standard-quiet -- -race -timeout 30m $(TESTFLAGS) ./...

# Kills a daemon under load as often as AGENT9_KILLS says, and checks after each
# time that nothing is lost, doubled or left behind. AGENT9_SEED, which it
# prints, has the same random numbers again. Then hostile clients, 10,000 of them.
soak:
	AGENT9_KILLS=$${AGENT9_KILLS:-200} $(GO) test -count=1 -timeout 120m -run '^(TestCrash|TestLoadComesDown)$$' -v ./cmd/agentd
	AGENT9_HOSTILE=full $(GO) test -count=1 -timeout 60m -run '^(TestHostileClients|TestNobodyTakesItAll)$$' -v ./cmd/agentd
	AGENT9_MONEY=full $(GO) test -count=1 -timeout 60m -run '^TestMoneyHolds$$' -v ./services/compute

# The kernel's own 9P client on more kernels.
test-kernels: build
	./conformance/deps.sh
	./conformance/v9fs/kernels.sh
	AGENT9_KERNELS=all $(GO) test -count=1 -timeout 60m -run 'TestClients/v9fs' -v ./conformance

# Looks for what breaks what reads from outside, FUZZTIME (60s) for each
# target. make test runs what was found before.
fuzz:
	GO=$(GO) ./conformance/fuzz.sh

# Ratios on this machine: the benchmarks of the packages, and agentd beside the
# servers of others. docs/performance.md says how, docs/bench has a baseline;
# AGENT9_BENCH_FULL=1 is the full scale.
bench:
	$(GO) test -run '^$$' -bench . -benchmem -benchtime $(or $(BENCHTIME),200ms) ./...
	$(GO) run ./cmd/agentbench

# agentd builds for three systems, agentctl and a9 for five.
cross:
	for os in linux darwin freebsd; do GOOS=$$os CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/agentd || exit 1; done
	for os in linux darwin freebsd windows plan9; do GOOS=$$os CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/agentctl && GOOS=$$os CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/a9 || exit 1; done

check:
	@test -z "$$(gofmt -l . | tee /dev/stderr)" || { echo 'run gofmt -w .' >&2; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...
	@$(MAKE) -s vuln

# Known faults in what is used, where their database can be reached.
VULN = https://vuln.go.dev
vuln:
	@if ! curl -sfm 10 -o /dev/null $(VULN)/index/db.json; then \
		echo 'vuln: $(VULN) does not answer: known faults were not looked for' >&2; \
	else \
		$(GO) run golang.org/x/vuln/cmd/govulncheck@latest -db $(VULN) ./...; s=$$?; \
		case $$s in 0) ;; 3) exit 1 ;; *) echo 'vuln: govulncheck could not look' >&2 ;; esac; \
	fi

install:
	$(GO) install ./cmd/agentd ./cmd/agentctl
	CGO_ENABLED=0 $(GO) install -trimpath -ldflags='-s -w' ./cmd/a9

clean:
	rm -rf bin
