package models_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"agent9/fsys"
	"agent9/providers/models"
)

func transcribe(t *testing.T, body string) (models.Request, error) {
	t.Helper()
	b, err := models.ParseBody([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return models.ParseRequest(models.Transcribe, b)
}

func TestFile(t *testing.T) {
	for body, want := range map[string]string{
		`{"file":"SUQz"}`:                                       `audio.mp3 "ID3"`,
		`{"file":"SUQ=\n"}`:                                     `audio.wav "ID"`,
		`{"file":"_-8"}`:                                        `audio.wav "\xff\xef"`,
		`{"file":"data:audio/mpeg;base64,AA=="}`:                `audio.mp3 "\x00"`,
		`{"file":"data:audio/flac;codecs=x;base64,AA=="}`:       `audio.flac "\x00"`,
		`{"file":"AA==","filename":"../../etc/x.ogg"}`:          `x.ogg "\x00"`,
		`{"file":"data:audio/mpeg;base64,AA","filename":"a.b"}`: `a.b "\x00"`,
	} {
		req, err := transcribe(t, body)
		if err != nil {
			t.Errorf("%s: %v", body, err)
			continue
		}
		name, data, err := req.File()
		if got := fmt.Sprintf("%s %q", name, data); err != nil || got != want {
			t.Errorf("%s: got %s, %v, want %s", body, got, err, want)
		}
	}
	for _, body := range []string{`{}`, `{"file":""}`, `{"file":7}`, `{"file":"?"}`, `{"file":"data:audio/mpeg,AA"}`, `{"file":"AA","filename":1}`} {
		if _, err := transcribe(t, body); fsys.CodeOf(err) != fsys.Invalid {
			t.Errorf("%s: got %v", body, err)
		}
	}
}

type waits struct{ error }

func (waits) RetryAfter() time.Duration { return 3 * time.Second }

func TestRetryAfter(t *testing.T) {
	err := fsys.Wrap(fsys.Busy, "too many", &fsys.Error{Code: fsys.Busy, Err: waits{errors.New("x")}})
	if got := models.RetryAfter(err); got != 3*time.Second {
		t.Errorf("got %v", got)
	}
	if got := models.RetryAfter(fsys.Busy); got != 0 {
		t.Errorf("got %v of an error that does not say", got)
	}
}

// Blocks of reasoning come back in the message, to be given to the provider
// again.
func TestThinkingBlocks(t *testing.T) {
	a := models.NewAnswer(models.Ask("m", "x"))
	for _, c := range []models.Chunk{{Reasoning: "hm"}, {Thinking: []json.RawMessage{json.RawMessage(`{"signature":"s"}`)}}, {Text: "a"}} {
		if err := a.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	const want = `"message":{"role":"assistant","content":"a","reasoning_content":"hm","thinking_blocks":[{"signature":"s"}]}`
	if got := string(a.Result(models.Usage{})); !strings.Contains(got, want) {
		t.Errorf("got %s", got)
	}
}
