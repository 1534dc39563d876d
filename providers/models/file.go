package models

import (
	"encoding/base64"
	"encoding/json"
	"mime"
	"path"
	"strings"

	"agent9/fsys"
)

// File returns the sound that a request of kind Transcribe is about, and a
// name for it whose ending tells its format. OpenAI takes it as a file of a
// form; here the form is a JSON object, in which the field "file" has the bytes
// in base64 or as a data: URL, and "filename" the name, if it matters.
func (r Request) File() (name string, data []byte, err error) {
	var file string
	for _, f := range []struct {
		name string
		into *string
	}{{"file", &file}, {"filename", &name}} {
		if raw := r.Body.Get(f.name); raw != nil && json.Unmarshal(raw, f.into) != nil {
			return "", nil, fsys.E(fsys.Invalid, f.name+" must be a string")
		}
	}
	if file == "" {
		return "", nil, fsys.E(fsys.Invalid, "a request of kind transcribe needs file: the sound in base64, or as a data: URL")
	}
	kind := ""
	if strings.HasPrefix(file, "data:") {
		kind, data, err = DataURL(file)
	} else {
		data, err = decode64(file)
	}
	if err != nil {
		return "", nil, fsys.E(fsys.Invalid, "file must be the sound in base64, or as a data: URL")
	}
	if name = path.Base(name); name == "." || name == "/" {
		name = "audio." + ending(kind, data)
	}
	return name, data, nil
}

// DataURL returns the media type and the bytes of a data: URL in base64
// (RFC 2397).
func DataURL(url string) (kind string, data []byte, err error) {
	head, text, ok := strings.Cut(strings.TrimPrefix(url, "data:"), ",")
	head, base64 := strings.CutSuffix(head, ";base64")
	if !ok || !base64 || !strings.HasPrefix(url, "data:") {
		return "", nil, fsys.E(fsys.Invalid, "a data: URL is data:TYPE;base64,TEXT")
	}
	kind, _, err = mime.ParseMediaType(head)
	if err != nil {
		return "", nil, fsys.E(fsys.Invalid, "a data: URL is data:TYPE;base64,TEXT")
	}
	if data, err = decode64(text); err != nil {
		return "", nil, fsys.E(fsys.Invalid, "what is in a data: URL is not base64")
	}
	return kind, data, nil
}

// decode64 takes base64 of both alphabets, with padding or without, on one
// line or on several, as base64(1) writes it.
func decode64(text string) ([]byte, error) {
	text = strings.NewReplacer("\n", "", "\r", "", " ", "", "-", "+", "_", "/").Replace(text)
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
}

// ending is what the name of a sound ends in.
func ending(kind string, data []byte) string {
	switch kind {
	case "audio/mpeg":
		return "mp3"
	case "audio/x-wav", "audio/wave", "audio/vnd.wave":
		return "wav"
	case "audio/mp4", "audio/x-m4a":
		return "m4a"
	}
	if sub, ok := strings.CutPrefix(kind, "audio/"); ok {
		return sub
	}
	for _, magic := range []struct{ begin, ending string }{
		{"ID3", "mp3"}, {"\xff\xfb", "mp3"}, {"\xff\xf3", "mp3"}, {"OggS", "ogg"}, {"fLaC", "flac"}, {"\x1aE\xdf\xa3", "webm"},
	} {
		if strings.HasPrefix(string(data), magic.begin) {
			return magic.ending
		}
	}
	if len(data) > 8 && string(data[4:8]) == "ftyp" {
		return "m4a"
	}
	return "wav"
}
