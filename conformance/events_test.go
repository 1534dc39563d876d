package conformance_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Every event that the code can record is in the docs.
func TestEventsAreInTheDocs(t *testing.T) {
	docs, err := os.ReadFile("../docs/namespace.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`"((?:account|agent|alarm|approval|budget|compute|config|containers|deadletter|goal|inbox|outbox|secret|sessions|skill|state|tick|token|tool)\.[a-z]+)"`)
	talk := regexp.MustCompile(`c\.note\("([a-z]+)"`)
	seen := 0
	for _, root := range []string{"../services", "../namespace"} {
		err := fs.WalkDir(os.DirFS(root), ".", func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(root + "/" + path)
			if err != nil {
				return err
			}
			var events []string
			for _, m := range named.FindAllStringSubmatch(string(text), -1) {
				events = append(events, m[1])
			}
			if strings.HasPrefix(path, "sessions/") {
				for _, m := range talk.FindAllStringSubmatch(string(text), -1) {
					events = append(events, "sessions."+m[1])
				}
			}
			for _, event := range events {
				seen++
				if !strings.Contains(string(docs), "`"+event+"`") {
					t.Errorf("%s/%s: docs/namespace.md does not have the event %s", root, path, event)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if seen < 40 {
		t.Errorf("only %d events were found: the test does not know how they are written", seen)
	}
}
