// Fsx exercises a file for tests: fsx PATH STEPS BYTES.
package main

import (
	"fmt"
	"os"
	"strconv"

	"agent9/conformance/disk"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fsx:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("want PATH STEPS BYTES, not %q", args)
	}
	steps, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	most, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	return disk.FSX(args[0], steps, most)
}
