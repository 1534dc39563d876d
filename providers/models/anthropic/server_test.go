package anthropic

import (
	"encoding/json"
	"fmt"
	"net/http"

	"agent9/conformance"
)

const (
	start = `{"type":"message_start","message":{"id":"msg_1nZdL29xx5MUA1yADyHTEsnR8uuvGzszyy","type":"message","role":"assistant","content":[],"model":"claude-sonnet-4-5-20250929","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":25,"cache_creation_input_tokens":3,"cache_read_input_tokens":100,"output_tokens":1,"service_tier":"standard"}}}`
	text  = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	ping  = `{"type":"ping"}`
	end   = `{"type":"message_stop"}`
)

func textDelta(text string) string {
	b, _ := json.Marshal(text)
	return `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":` + string(b) + `}}`
}

func stopBlock(index int) string {
	return fmt.Sprintf(`{"type":"content_block_stop","index":%d}`, index)
}

func messageDelta(reason string) string {
	return `{"type":"message_delta","delta":{"stop_reason":"` + reason + `","stop_sequence":null},"usage":{"output_tokens":15}}`
}

// script answers in the shapes of Anthropic's documentation ("Streaming messages",
// "List models", "Errors").
var script = conformance.ModelScript{
	Chat:  []string{"POST /v1/messages"},
	Frame: "event: x\ndata: %s\n\n", Type: "text/event-stream; charset=utf-8",
	Begin: []string{start, text, ping}, End: []string{stopBlock(0), messageDelta("end_turn"), end},
	Say: textDelta,
	Named: map[string][]string{
		"served": {`{"type":"message_start","message":{"id":"msg_1","model":"m","usage":{"input_tokens":25,"output_tokens":1,REST}}}`, text, textDelta("a"), stopBlock(0), messageDelta("end_turn"), end},
		"break":  {start, text, textDelta("half"), `{"type":"error","error":{"type":"REST","message":"No more"}}`},
		"stop":   {start, messageDelta("REST"), end},
		"tools": {start,
			`{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Let me "}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"look."}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"EqQBCgIYAhIM1gbcDa9GJwZA2b3h"}}`,
			stopBlock(0),
			`{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"EmwKAhgB"}}`,
			stopBlock(1),
			`{"type":"content_block_start","index":2,"content_block":{"type":"tool_use","id":"toolu_01T1x1fJ34qAmk2tNTrN7Up6","name":"get_weather","input":{}}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":""}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":"{\"location\":"}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"input_json_delta","partial_json":" \"Rome\"}"}}`,
			stopBlock(2),
			`{"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_2","name":"now","input":{}}}`,
			stopBlock(3),
			messageDelta("tool_use"), end},
	},
	Other: map[string]func(http.ResponseWriter, *http.Request, string){
		"GET /v1/models": func(w http.ResponseWriter, r *http.Request, body string) {
			if r.Header.Get("X-Api-Key") != "k-secret-0123456789" || r.Header.Get("anthropic-version") == "" {
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			conformance.Whole("application/json", `{"data":[{"type":"model","id":"claude-sonnet-4-5-20250929","display_name":"Claude Sonnet 4.5","created_at":"2025-09-29T00:00:00Z","max_input_tokens":200000,"max_tokens":64000}],"has_more":false,"first_id":"claude-sonnet-4-5-20250929","last_id":"claude-sonnet-4-5-20250929"}`)(w, r, body)
		},
	},
}
