package openai

import (
	"strings"
	"testing"

	"agent9/fsys"
	"agent9/providers/models"
)

// of reads a body as a request of kind.
func of(t *testing.T, kind models.Kind, body string) models.Request {
	t.Helper()
	b, err := models.ParseBody([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	req, err := models.ParseRequest(kind, b)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestMedia(t *testing.T) {
	s := newServer(t)
	p := provider(t, s.URL)
	for _, c := range []struct {
		kind         models.Kind
		body         string
		sent         string
		text, result string
		mediaType    string
		usage        models.Usage
	}{
		{models.Image, `{"model":"dall-e-3","prompt":"a cat"}`, `{"model":"dall-e-3","prompt":"a cat","response_format":"b64_json"}`,
			"", png, "image/png", models.Usage{Input: 50, Output: 50}},
		{models.Image, `{"model":"gpt-image-1","prompt":"a cat","n":2,"stream":true}`, `{"model":"gpt-image-1","prompt":"a cat","n":2}`,
			"", `{"created":1713833628,"data":[{`, "", models.Usage{Input: 50, Output: 50}},
		{models.Speak, `{"model":"tts-1","input":"Hello!","voice":"alloy"}`, `{"model":"tts-1","input":"Hello!","voice":"alloy"}`,
			"", "ID3\x00\xff\n", "audio/mpeg", models.Usage{Input: 2, Estimated: true}},
		{models.Transcribe, `{"model":"whisper-1","file":"SUQzAA==","timestamp_granularities":["word","segment"]}`, `audio.mp3 "ID3\x00" ["whisper-1"] [word segment]`,
			"Hello", `{"text":"Hello","usage":{`, "", models.Usage{Input: 14, Output: 45}},
		{models.Transcribe, `{"model":"whisper-1","file":"data:audio/x-wav;base64,UklG\nRg","filename":"a/talk.wav","response_format":"srt"}`, `talk.wav "RIFF" ["whisper-1"] []`,
			"1\n00:00:00,000 --> 00:00:01,000\nHello\n", "1\n00:00:00,000 --> 00:00:01,000\nHello\n", "text/plain", models.Usage{Output: 13, Estimated: true}},
	} {
		chunks, usage, err := run(t, p, of(t, c.kind, strings.ReplaceAll(c.body, "\n", `\n`)))
		if err != nil {
			t.Errorf("%s: %v", c.body, err)
			continue
		}
		text := ""
		for _, chunk := range chunks {
			text += chunk.Text
		}
		last := chunks[len(chunks)-1]
		whole := string(last.Result) == c.result || c.mediaType == "" && strings.HasPrefix(string(last.Result), c.result)
		if sent := <-s.bodies; sent != c.sent || text != c.text || !whole || last.Type != c.mediaType || usage != c.usage {
			t.Errorf("%s:\nsent %s\ntext %q, result %q, type %q, usage %+v", c.body, sent, text, last.Result, last.Type, usage)
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
	if _, _, err := run(t, p, of(t, models.Speak, `{"input":"x"}`)); fsys.CodeOf(err) != fsys.Unsupported {
		t.Errorf("got %v", err)
	}
}

func TestPricesAreOpenAIs(t *testing.T) {
	for url, want := range map[string]bool{"https://api.openai.com/v1": true, "https://example.com/v1": false} {
		if p := provider(t, url); p.priced != want {
			t.Errorf("%s: OpenAI's prices: %v", url, p.priced)
		}
	}
}
