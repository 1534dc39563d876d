package ollama

import (
	"encoding/json"
	"net/http"
	"strings"

	"agent9/conformance"
)

const end = `{"model":"tiny","created_at":"2023-08-04T19:22:45.499127Z","message":{"role":"assistant","content":""},"done":true,"done_reason":"stop","total_duration":4883583458,"load_duration":1334875,"prompt_eval_count":26,"prompt_eval_duration":342546000,"eval_count":282,"eval_duration":4535599000}`

// script answers in the shapes of Ollama's documentation (docs/api.md).
var script = conformance.ModelScript{
	Chat:  []string{"POST /api/chat"},
	Frame: "%s\n", Type: "application/x-ndjson",
	End: []string{end},
	Say: func(text string) string {
		b, _ := json.Marshal(text)
		return `{"model":"tiny","created_at":"2023-08-04T08:52:19.385406455-07:00","message":{"role":"assistant","content":` + string(b) + `},"done":false}`
	},
	Named: map[string][]string{
		"tools": {
			`{"model":"tiny","message":{"role":"assistant","content":"","thinking":"hm"},"done":false}`,
			`{"model":"tiny","message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"get_weather","arguments":{"city":"Tokyo"}}}]},"done":false}`,
			`{"model":"tiny","message":{"role":"assistant","content":"","tool_calls":[{"id":"call_x","function":{"index":0,"name":"now","arguments":{}}}]},"done":false}`, end},
	},
	Other: map[string]func(http.ResponseWriter, *http.Request, string){
		"GET /api/tags": conformance.Whole("application/json", `{"models":[{"name":"tiny:latest","model":"tiny:latest","modified_at":"2025-05-10T08:06:48.639712648-07:00","size":3,"digest":"0a8c","details":{"format":"gguf","family":"llama"}},{"name":"embed:latest","model":"embed:latest","digest":"1b","details":{"family":"bert"}},{"name":"odd:latest","digest":"2c"}]}`),
		"POST /api/show": func(w http.ResponseWriter, r *http.Request, body string) {
			switch {
			case strings.Contains(body, "tiny"):
				conformance.Whole("application/json", `{"details":{"family":"llama"},"model_info":{"general.architecture":"llama","llama.context_length":8192,"llama.block_count":32},"capabilities":["completion","tools"]}`)(w, r, body)
			case strings.Contains(body, "embed"):
				conformance.Whole("application/json", `{"model_info":{"bert.context_length":512},"capabilities":["embedding"]}`)(w, r, body)
			default:
				http.Error(w, `{"error":"broken model"}`, http.StatusInternalServerError)
			}
		},
		"POST /api/embed": func(w http.ResponseWriter, r *http.Request, body string) {
			more := ""
			if strings.Contains(body, `"b"`) {
				more = ",[1,2]"
			}
			conformance.Whole("application/json", `{"model":"embed","embeddings":[[0.010071029,-0.0017594862]`+more+`],"total_duration":14143917,"load_duration":1019500,"prompt_eval_count":8}`)(w, r, body)
		},
		"POST /api/generate": conformance.Whole("application/x-ndjson", `{"model":"tiny","created_at":"2023-08-04T08:52:19.385406455-07:00","response":"The","done":false}`+"\n"+`{"model":"tiny","created_at":"2023-08-04T19:22:45.499127Z","response":"","done":true,"done_reason":"length","context":[1,2,3],"total_duration":10706818083,"prompt_eval_count":26,"eval_count":259}`),
	},
}
