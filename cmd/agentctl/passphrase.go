package main

import (
	"bytes"
	"fmt"
	"os"
	"runtime"

	"github.com/urfave/cli/v2"
	"golang.org/x/term"
)

const (
	passphraseVar  = "AGENT9_BUNDLE_PASSPHRASE"
	passphraseName = "passphrase-file"
)

func passphraseFlag() cli.Flag {
	return &cli.PathFlag{Name: passphraseName, Usage: "take the passphrase from the first line of `FILE`"}
}

// passphrase returns that of a bundle's keys: from a file, the environment, or
// a person, who is asked twice for a new one. It is in no argument, because
// every user of a machine sees those.
func (s *session) passphrase(isNew bool) (string, error) {
	if file := s.Path(passphraseName); file != "" {
		b, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		line, _, _ := bytes.Cut(b, []byte("\n"))
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) == 0 {
			return "", usagef("the first line of %s is empty, and should be the passphrase", file)
		}
		return string(line), nil
	}
	if word := os.Getenv(passphraseVar); word != "" {
		return word, nil
	}
	word, err := s.prompt("passphrase for the keys: ")
	if err != nil || !isNew {
		return word, err
	}
	again, err := s.prompt("the same again: ")
	if err == nil && again != word {
		err = usagef("the two passphrases are not the same")
	}
	return word, err
}

// prompt asks on the terminal, whatever standard input is.
func (s *session) prompt(question string) (string, error) {
	name := "/dev/tty"
	switch runtime.GOOS {
	case "windows":
		name = "CONIN$"
	case "plan9":
		name = "/dev/cons"
	}
	tty, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return "", usagef("there is no terminal to ask for the passphrase; give --%s or %s", passphraseName, passphraseVar)
	}
	defer tty.Close()
	fmt.Fprint(s.App.ErrWriter, question)
	word, err := term.ReadPassword(int(tty.Fd()))
	fmt.Fprintln(s.App.ErrWriter)
	if err == nil && len(word) == 0 {
		err = usagef("the passphrase is empty")
	}
	return string(word), err
}
