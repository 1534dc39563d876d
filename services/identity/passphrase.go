package identity

import (
	"bytes"
	"fmt"
	"os"

	"agent9/fsys"
)

const (
	passphraseVar     = "AGENT9_PASSPHRASE"
	passphraseFileVar = "AGENT9_PASSPHRASE_FILE"
)

// TakePassphrase returns the passphrase that the environment gives for
// [RingFromPassphrase], and nil if it gives none: AGENT9_PASSPHRASE, or the
// first line of the file that AGENT9_PASSPHRASE_FILE names. It removes both
// variables, so that programs started later do not inherit them; call it
// before any are.
func TakePassphrase() ([]byte, error) {
	word, inEnv := os.LookupEnv(passphraseVar)
	path, inFile := os.LookupEnv(passphraseFileVar)
	os.Unsetenv(passphraseVar)
	os.Unsetenv(passphraseFileVar)
	switch {
	case inEnv && inFile:
		return nil, fsys.E(fsys.Invalid, "give either "+passphraseVar+" or "+passphraseFileVar+", not both")
	case inEnv && word == "":
		return nil, fsys.E(fsys.Invalid, passphraseVar+" is empty")
	case inEnv:
		return []byte(word), nil
	case !inFile:
		return nil, nil
	}
	return ReadPassphrase(path)
}

// ReadPassphrase returns the first line of the file at path, which others than
// its owner and group must not be able to read, and only its owner to write.
func ReadPassphrase(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fsys.Wrap(fsys.Unavailable, "the passphrase", err)
	}
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o026 != 0 {
		return nil, fsys.E(fsys.Permission, fmt.Sprintf("the passphrase in %s can be read or written by others (%s): chmod 600 it, if nobody has read it", path, info.Mode()))
	}
	line, _, _ := bytes.Cut(b, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) == 0 {
		return nil, fsys.E(fsys.Invalid, "the first line of "+path+" is empty, and should be the passphrase")
	}
	return line, nil
}
