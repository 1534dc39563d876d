// Package openai answers OpenAI's HTTP API from one agent's files, so that any
// program that can be given a base URL and a key works through them: under the
// agent's budget and policy, in its journal and its logs.
//
//	/agents/NAME/v1/models               compute/providers/*/models
//	/agents/NAME/v1/chat/completions     compute/new, then jobs/N/chunks or jobs/N/result
//	/agents/NAME/v1/completions          the same
//	/agents/NAME/v1/embeddings           the same
//	/v1/…                                of the agent that the token is for
//
// A request goes into compute/new as it is, so max_cost_microusd, provider and
// timeout_ms may be given too, and what the provider knows beyond this package
// survives. The header Idempotency-Key becomes the job's key, and X-Agent9-Job
// of the answer is its number.
//
// A client that goes away cancels its job, unless it gave a key to come back
// with. A job that waits for an approval is answered with 409 approval_required
// and waits on; ?wait=5m waits with it. Ask again with the same key.
package openai
