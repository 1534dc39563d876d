package openai

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The clients of OpenAI take for granted that an answer has id, created and model.
func TestEveryAnswerHasAName(t *testing.T) {
	for _, c := range []struct{ kind, text, want string }{
		{chat, `{"object":"chat.completion","choices":[]}` + "\n", `{"id":"chatcmpl-7","created":5,"model":"a\"b","object":"chat.completion","choices":[]}` + "\n"},
		{complete, `{"model":"m","choices":[]}`, `{"id":"cmpl-7","created":5,"model":"m","choices":[]}`},
		{chat, `{"id":"x","created":1,"model":"m"}`, `{"id":"x","created":1,"model":"m"}`},
		{embeddings, `{"data":[]}`, `{"data":[]}`},
		{chat, `no JSON`, `no JSON`},
		{chat, `{}`, `{"id":"chatcmpl-7","created":5,"model":"a\"b"}`},
	} {
		j := &job{number: "7", kind: c.kind, req: &request{model: `a"b`}, began: time.Unix(5, 0)}
		require.Equal(t, c.want, string(j.named([]byte(c.text))))
	}
}
