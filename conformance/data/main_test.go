package data

import (
	"testing"

	"agent9/conformance/daemon"
)

func TestMain(m *testing.M) { daemon.Main(m, nil) }
