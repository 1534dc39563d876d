package httpapi

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"net/http"

	"agent9/fsys"
	"agent9/providers/models"
)

// Embeddings returns the response to req in OpenAI's form: vectors as arrays
// of numbers as they came or, if the request has the encoding_format base64,
// as 32-bit floats, little-endian.
func Embeddings(req models.Request, vectors []json.RawMessage, usage models.Usage) (json.RawMessage, error) {
	type embedding struct {
		Object    string `json:"object"`
		Index     int    `json:"index"`
		Embedding any    `json:"embedding"`
	}
	type tokens struct {
		Prompt int64 `json:"prompt_tokens"`
		Total  int64 `json:"total_tokens"`
	}
	var format string
	if raw := req.Body.Get("encoding_format"); raw != nil && json.Unmarshal(raw, &format) != nil {
		return nil, fsys.E(fsys.Invalid, "encoding_format must be float or base64")
	}
	data := []embedding{}
	for i, v := range vectors {
		e := embedding{"embedding", i, v}
		if format == "base64" {
			var numbers []float32
			if err := json.Unmarshal(v, &numbers); err != nil {
				return nil, NotAnAnswer(err)
			}
			e.Embedding = packed(numbers)
		}
		data = append(data, e)
	}
	return OneLine(fsys.Line(struct {
		Object string      `json:"object"`
		Data   []embedding `json:"data"`
		Model  string      `json:"model"`
		Usage  tokens      `json:"usage"`
	}{"list", data, req.Model, tokens{usage.Input, usage.Input}})), nil
}

func packed(numbers []float32) string {
	b := make([]byte, 0, 4*len(numbers))
	for _, n := range numbers {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(n))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// Picture gives one, which is the whole response.
func (s *Stream) Picture(used models.Usage, data []byte) (models.Usage, error) {
	return s.Give(used, data, http.DetectContentType(data))
}

// OneLine returns a JSON value without the white space between its parts.
func OneLine(raw []byte) json.RawMessage {
	line := fsys.Line(json.RawMessage(raw))
	return line[:len(line)-1]
}
