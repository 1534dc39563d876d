package cloudflare

import (
	"encoding/base64"
	"encoding/json"
	"net/http"

	"agent9/conformance"
)

const (
	ai    = "/client/v4/accounts/acc1/ai"
	llama = "@cf/meta/llama-3.3-70b-instruct-fp8-fast"
	usage = `{"response":"","usage":{"prompt_tokens":12,"completion_tokens":9,"total_tokens":21}}`
	png   = "\x89PNG\x0d\x0a\x1a\x0a\x00"
)

// script answers in the shapes of the documentation of Workers AI.
var script = conformance.ModelScript{
	Chat:  []string{"POST " + ai + "/run/" + llama},
	Frame: "data: %s\n\n", Type: "text/event-stream",
	End: []string{usage, "[DONE]"},
	Say: func(text string) string {
		b, _ := json.Marshal(text)
		return `{"response":` + string(b) + `,"p":"abdefgh"}`
	},
	Other: map[string]func(http.ResponseWriter, *http.Request, string){
		"GET " + ai + "/models/search": conformance.Whole("application/json", `{"success":true,"result":[
 {"id":"7a143886","source":1,"name":"`+llama+`","task":{"id":"c329a1f9","name":"Text Generation"},"properties":[{"property_id":"context_window","value":"24000"},{"property_id":"price","value":[{"unit":"per M input tokens","price":0.29,"currency":"USD"},{"unit":"per M output tokens","price":2.25,"currency":"USD"}]},{"property_id":"function_calling","value":"true"}]},
 {"id":"1","name":"@cf/new/model","task":{"name":"Text Generation"},"properties":[{"property_id":"price","value":[{"unit":"per M input tokens","price":0.0171234,"currency":"USD"},{"unit":"per M output tokens","price":2,"currency":"USD"}]}]},
 {"id":"2","name":"@cf/black-forest-labs/flux-1-schnell","task":{"name":"Text-to-Image"},"properties":[{"property_id":"price","value":[{"unit":"per 512 by 512 tile","price":0.0000528,"currency":"USD"}]}]},
 {"id":"3","name":"@cf/microsoft/resnet-50","task":{"name":"Image Classification"},"properties":[]}],"errors":[],"messages":[]}`),
		"POST " + ai + "/run/@cf/baai/bge-base-en-v1.5":            conformance.Whole("application/json", `{"result":{"shape":[1,2],"data":[[0.01,-0.02]],"pooling":"mean"},"success":true,"errors":[],"messages":[]}`),
		"POST " + ai + "/run/@cf/black-forest-labs/flux-1-schnell": conformance.Whole("application/json", `{"result":{"image":"`+base64.StdEncoding.EncodeToString([]byte(png))+`"},"success":true,"errors":[],"messages":[]}`),
		"POST " + ai + "/run/@cf/stabilityai/sdxl":                 conformance.Whole("image/png", png),
	},
}
