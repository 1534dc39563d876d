package openai

import (
	"fmt"
	"io"
	"net/http"
	"testing"

	"agent9/conformance"
	"agent9/fsys"
	"agent9/providers/models"
)

// A transcript is asked for with a form.
func TestTranscribe(t *testing.T) {
	sent := make(chan string, 1)
	answer := script.Other["POST /v1/audio/transcriptions"]
	p := bare(t, func(w http.ResponseWriter, r *http.Request) {
		file, head, err := r.FormFile("file")
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		sound, _ := io.ReadAll(file)
		sent <- fmt.Sprintf("%s %q %q %v", head.Filename, sound, r.PostForm["model"], r.PostForm["timestamp_granularities[]"])
		answer(w, r, "")
	})
	for _, c := range []struct {
		body, sent, result, mediaType string
		usage                         models.Usage
	}{
		{`{"model":"whisper-1","file":"SUQzAA==","timestamp_granularities":["word","segment"]}`, `audio.mp3 "ID3\x00" ["whisper-1"] [word segment]`,
			`{"text":"Hello","usage":{"type":"tokens","input_tokens":14,"input_token_details":{"text_tokens":0,"audio_tokens":14},"output_tokens":45,"total_tokens":59}}`, "", models.Usage{Input: 14, Output: 45}},
		{`{"model":"whisper-1","file":"data:audio/x-wav;base64,UklG\nRg","filename":"a/talk.wav","response_format":"srt"}`, `talk.wav "RIFF" ["whisper-1"] []`,
			"1\n00:00:00,000 --> 00:00:01,000\nHello\n", "text/plain", models.Usage{Output: 13, Estimated: true}},
	} {
		chunks, usage, err := conformance.RunModel(t, p, conformance.ParseModelRequest(t, "transcribe", c.body))
		if err != nil {
			t.Fatalf("%s: %v", c.body, err)
		}
		text, last := chunks[0].Text, chunks[len(chunks)-1]
		if c.mediaType == "" && text != "Hello" || c.mediaType != "" && text != c.result {
			t.Errorf("%s: the text is %q", c.body, text)
		}
		if got := <-sent; got != c.sent || string(last.Result) != c.result || last.Type != c.mediaType || usage != c.usage {
			t.Errorf("%s:\nsent %s\nresult %q, type %q, usage %+v", c.body, got, last.Result, last.Type, usage)
		}
	}
}

// What a server is known not to do is refused before it is asked.
func TestOnlyTheKindsThatThereAre(t *testing.T) {
	p, err := New(Config{BaseURL: "http://127.0.0.1:1", Kinds: []models.Kind{models.Chat}})
	if err != nil {
		t.Fatal(err)
	}
	if models.NewRunner("p", p).Can(models.Speak) || !models.NewRunner("p", p).Can(models.Chat) {
		t.Errorf("the kinds are %v", p.Info().Kinds)
	}
	if _, _, err := conformance.RunModel(t, p, conformance.ParseModelRequest(t, "speak", `{"input":"x"}`)); fsys.CodeOf(err) != fsys.Unsupported {
		t.Errorf("got %v", err)
	}
}

func TestPricesAreOpenAIs(t *testing.T) {
	for url, want := range map[string]bool{"https://api.openai.com/v1": true, "https://example.com/v1": false} {
		if p, err := New(Config{BaseURL: url}); err != nil || p.priced != want {
			t.Errorf("%s: OpenAI's prices: %v, %v", url, p.priced, err)
		}
	}
}
