package main

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// flagWord is a flag in what the parser says, which has one dash for all.
var flagWord = regexp.MustCompile(`(flag|defined:|argument:) -([a-z][a-z0-9-]+)`)

// refusedFlag says err, which is about a flag of the command, for a person.
func refusedFlag(c *cli.Context, err error) error {
	text, command := flagWord.ReplaceAllString(err.Error(), "$1 --$2"), ""
	if c.Command != nil && c.Command.Name != c.App.Name && c.App.Command(c.Command.Name) != nil {
		command = c.Command.Name + " "
		if strings.Contains(text, "not defined") && (strings.Contains(c.Command.ArgsUsage, "TEXT") || strings.Contains(c.Command.ArgsUsage, "COMMAND")) {
			text += "; what begins with - and is no flag goes after --"
		}
	}
	if name, ok := strings.CutPrefix(text, "flag needs an argument: --"); ok && isAmount(name) {
		return usagef("%s", noAmount(name))
	}
	if m := badValue.FindStringSubmatch(text); m != nil {
		want := "a whole number"
		if f := flagNamed(append(c.App.Flags, c.Command.Flags...), "--"+m[2]); isDuration(f) {
			want = "a time with its unit, such as 5s, 500ms or 24h"
		}
		text = fmt.Sprintf("--%s: %s is not %s", m[2], m[1], want)
	}
	return usagef("%s; see agentctl %s--help", text, command)
}

// badValue is what the parser says of a value that is not of the flag's kind.
var badValue = regexp.MustCompile(`^invalid value (".*") for flag --?([a-z-]+): parse error$`)

func isDuration(f cli.Flag) bool {
	_, ok := f.(*cli.DurationFlag)
	return ok
}

// isAmount reports whether the flag called name has an amount of money.
func isAmount(name string) bool {
	return name == "max-cost" || slices.ContainsFunc(limitFlags, func(l limitFlag) bool { return l.flag == name })
}

func noAmount(flag string) string {
	return fmt.Sprintf("--%s has no amount; a shell takes $2 for a variable: write '$2', 2usd or 200c", flag)
}

// seconds is the time that the flag says: a number of seconds, or as 90s or 5m.
func (s *session) seconds(flag string) (int64, error) {
	text := s.String(flag)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 || d%time.Second != 0 {
		return 0, usagef("--%s: %q is not a time of whole seconds; write 90, 90s or 5m", flag, text)
	}
	return int64(d / time.Second), nil
}

// megabytes is the size that the flag says: a number of MB, or as 64MB or 2GB.
func (s *session) megabytes(flag string) (int64, error) {
	text := strings.ToUpper(s.String(flag))
	number, factor := strings.TrimSuffix(strings.TrimSuffix(text, "B"), "I"), int64(1)
	if n, giga := strings.CutSuffix(number, "G"); giga {
		number, factor = n, 1024
	}
	n, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(number, "M")), 10, 64)
	if err != nil || n > 1<<40 {
		return 0, usagef("--%s: %q is not a size; write 64, 64MB or 2GB", flag, s.String(flag))
	}
	return n * factor, nil
}
