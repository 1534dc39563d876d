//go:build unix && !linux

package folder

import "time"

func born(int) string { return "" }

func cpu(int) time.Duration { return 0 }

func kill(Process) {}
