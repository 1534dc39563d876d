package work

import (
	"encoding/json"

	"agent9/fsys"
)

// A Value is a text, or {"secret": NAME}.
type Value struct{ Text, Secret string }

func (v *Value) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &v.Text) == nil {
		return nil
	}
	var ref struct {
		Secret string `json:"secret"`
	}
	if fsys.Strictly(b, &ref) != nil || ref.Secret == "" {
		return fsys.E(fsys.Invalid, `a value is a text or {"secret": NAME}`)
	}
	v.Secret = ref.Secret
	return nil
}
