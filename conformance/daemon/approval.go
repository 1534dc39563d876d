package daemon

const WaitingJob = `{"messages": [{"role": "user", "content": "hi"}], "max_cost_microusd": 500}`
