#!/bin/bash
# Fuzzes every target of the module for FUZZTIME each (default 60s), one after
# another. What breaks one is kept in testdata/fuzz beside the test, where every
# later run of the tests has it; commit it with what mends it.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
go=${GO:-go} failed=
said=$(mktemp)
trap 'rm -f "$said"' EXIT
while read -r package target; do
	echo "fuzz: $package $target"
	"$go" test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-60s}" -fuzzminimizetime 5s "$package" | tee "$said" && continue
	# Before Go 1.27 it can fail because the time is over (go.dev/issue/75804).
	grep -q 'context deadline exceeded' "$said" && ! grep -q 'Failing input' "$said" || failed+=" $package:$target"
done < <(grep -rl --include=*_test.go '^func Fuzz' . | while read -r file; do
	sed -n "s|^func \(Fuzz[A-Za-z0-9_]*\)(f \*testing.F).*|./$(dirname "${file#./}") \1|p" "$file"
done | sort)
[ -z "$failed" ] || { echo "fuzz: found something in$failed" >&2; exit 1; }
