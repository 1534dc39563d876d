package models

import "strings"

// PricesDate is the month in which the table of prices was put together from
// what is public.
const PricesDate = "2026-11"

// PriceOf returns what is publicly known of the price of a model, under the
// provider's own name for it or the name of one of its dated versions; nil is
// not known. The caller may change what it gets.
func PriceOf(model string) *Price {
	for _, k := range known {
		if model == k.model || dated(model, k.model) {
			p := k.price
			if p.Long != nil {
				long := *p.Long
				p.Long = &long
			}
			return &p
		}
	}
	return nil
}

// dated reports whether name is that of a version of model, such as
// MODEL-2026-04-23, MODEL-20260423 or MODEL-latest.
func dated(name, model string) bool {
	version, ok := strings.CutPrefix(name, model+"-")
	return ok && (version == "latest" || Match("20[0-9][0-9][01][0-9][0-3][0-9]", version) || Match("20[0-9][0-9]-[01][0-9]-[0-3][0-9]", version))
}

// known are public prices in micro-dollars for a million tokens: input, input
// read from the cache, output, input written to the cache (0: as any), and the
// price of long requests. Where a provider has no price for cached input, it is
// that of input. What is not billed by tokens is not here.
var known = []struct {
	model string
	price Price
}{
	// OpenAI's standard service tier, from "Pricing" of its API documentation as
	// quoted in 2026, and from GitHub's "Models and pricing" of Copilot, which
	// has the same prices and those of long requests. gpt-5.6-sol is at its list
	// price: a promotion of 2026 is cheaper.
	{"gpt-5.6-sol", Price{5_000_000, 500_000, 30_000_000, 6_250_000, 272_000, &Price{10_000_000, 1_000_000, 45_000_000, 12_500_000, 0, nil}}},
	{"gpt-5.6-terra", Price{2_000_000, 200_000, 12_000_000, 2_500_000, 272_000, &Price{4_000_000, 400_000, 18_000_000, 5_000_000, 0, nil}}},
	{"gpt-5.6-luna", Price{200_000, 20_000, 1_200_000, 250_000, 200_000, &Price{400_000, 40_000, 1_800_000, 500_000, 0, nil}}},
	{"gpt-5.5", Price{5_000_000, 500_000, 30_000_000, 0, 272_000, &Price{10_000_000, 1_000_000, 45_000_000, 0, 0, nil}}},
	{"gpt-5.5-pro", Price{30_000_000, 30_000_000, 180_000_000, 0, 0, nil}},
	{"gpt-5.4", Price{2_500_000, 250_000, 15_000_000, 0, 272_000, &Price{5_000_000, 500_000, 22_500_000, 0, 0, nil}}},
	{"gpt-5.4-pro", Price{30_000_000, 30_000_000, 180_000_000, 0, 0, nil}},
	{"gpt-5.4-mini", Price{750_000, 75_000, 4_500_000, 0, 0, nil}},
	{"gpt-5.4-nano", Price{200_000, 20_000, 1_250_000, 0, 0, nil}},
	{"gpt-5.3-codex", Price{1_750_000, 175_000, 14_000_000, 0, 0, nil}},
	{"gpt-5.2", Price{1_750_000, 175_000, 14_000_000, 0, 0, nil}},
	{"gpt-5.1", Price{1_250_000, 125_000, 10_000_000, 0, 0, nil}},
	{"gpt-5", Price{1_250_000, 125_000, 10_000_000, 0, 0, nil}},
	{"gpt-5-mini", Price{250_000, 25_000, 2_000_000, 0, 0, nil}},
	{"gpt-5-nano", Price{50_000, 5_000, 400_000, 0, 0, nil}},
	{"gpt-4.1", Price{2_000_000, 500_000, 8_000_000, 0, 0, nil}},
	{"gpt-4.1-mini", Price{400_000, 100_000, 1_600_000, 0, 0, nil}},
	{"gpt-4.1-nano", Price{100_000, 25_000, 400_000, 0, 0, nil}},
	{"gpt-4o-2024-05-13", Price{5_000_000, 5_000_000, 15_000_000, 0, 0, nil}},
	{"gpt-4o", Price{2_500_000, 1_250_000, 10_000_000, 0, 0, nil}},
	{"gpt-4o-mini", Price{150_000, 75_000, 600_000, 0, 0, nil}},
	{"o3", Price{2_000_000, 500_000, 8_000_000, 0, 0, nil}},
	{"o4-mini", Price{1_100_000, 275_000, 4_400_000, 0, 0, nil}},
	{"o3-mini", Price{1_100_000, 550_000, 4_400_000, 0, 0, nil}},
	{"o1", Price{15_000_000, 7_500_000, 60_000_000, 0, 0, nil}},
	{"gpt-4-turbo", Price{10_000_000, 10_000_000, 30_000_000, 0, 0, nil}},
	{"gpt-3.5-turbo", Price{500_000, 500_000, 1_500_000, 0, 0, nil}},
	{"text-embedding-ada-002", Price{100_000, 100_000, 0, 0, 0, nil}},
	{"text-embedding-3-small", Price{20_000, 20_000, 0, 0, 0, nil}},
	{"text-embedding-3-large", Price{130_000, 130_000, 0, 0, 0, nil}},

	// Anthropic's standard speed, from "Pricing" of its API documentation as of
	// 2026-10-10. Writing is to the cache of five minutes; to that of an hour it
	// costs more.
	{"claude-fable-5-1", Price{10_000_000, 250_000, 50_000_000, 12_500_000, 0, nil}},
	{"claude-mythos-5-1", Price{10_000_000, 250_000, 50_000_000, 12_500_000, 0, nil}},
	{"claude-fable-5", Price{10_000_000, 1_000_000, 50_000_000, 12_500_000, 0, nil}},
	{"claude-mythos-5", Price{10_000_000, 1_000_000, 50_000_000, 12_500_000, 0, nil}},
	{"claude-opus-5-5", Price{4_000_000, 200_000, 20_000_000, 5_000_000, 0, nil}},
	{"claude-opus-5", Price{5_000_000, 500_000, 25_000_000, 6_250_000, 0, nil}},
	{"claude-opus-4-8", Price{5_000_000, 500_000, 25_000_000, 6_250_000, 0, nil}},
	{"claude-opus-4-7", Price{5_000_000, 500_000, 25_000_000, 6_250_000, 0, nil}},
	{"claude-opus-4-6", Price{5_000_000, 500_000, 25_000_000, 6_250_000, 0, nil}},
	{"claude-opus-4-5", Price{5_000_000, 500_000, 25_000_000, 6_250_000, 0, nil}},
	{"claude-opus-4-1", Price{15_000_000, 1_500_000, 75_000_000, 18_750_000, 0, nil}},
	{"claude-opus-4", Price{15_000_000, 1_500_000, 75_000_000, 18_750_000, 0, nil}},
	{"claude-sonnet-5-5", Price{2_000_000, 100_000, 10_000_000, 2_500_000, 0, nil}},
	{"claude-sonnet-5", Price{2_000_000, 200_000, 10_000_000, 2_500_000, 0, nil}},
	{"claude-sonnet-4-6", Price{3_000_000, 300_000, 15_000_000, 3_750_000, 0, nil}},
	{"claude-sonnet-4-5", Price{3_000_000, 300_000, 15_000_000, 3_750_000, 200_000, &Price{6_000_000, 600_000, 22_500_000, 7_500_000, 0, nil}}},
	{"claude-sonnet-4", Price{3_000_000, 300_000, 15_000_000, 3_750_000, 200_000, &Price{6_000_000, 600_000, 22_500_000, 7_500_000, 0, nil}}},
	{"claude-haiku-5-5", Price{100_000, 10_000, 500_000, 125_000, 100_000, &Price{500_000, 50_000, 2_500_000, 625_000, 0, nil}}},
	{"claude-haiku-4-5", Price{1_000_000, 100_000, 5_000_000, 1_250_000, 0, nil}},

	// Cloudflare, from "Pricing" of the Workers AI documentation, without the
	// free allowance of each day.
	{"@cf/meta/llama-3.2-1b-instruct", Price{27_000, 27_000, 201_000, 0, 0, nil}},
	{"@cf/meta/llama-3.2-3b-instruct", Price{51_000, 51_000, 335_000, 0, 0, nil}},
	{"@cf/meta/llama-3.1-8b-instruct-fp8-fast", Price{45_000, 45_000, 384_000, 0, 0, nil}},
	{"@cf/meta/llama-3.2-11b-vision-instruct", Price{49_000, 49_000, 676_000, 0, 0, nil}},
	{"@cf/meta/llama-3.1-70b-instruct-fp8-fast", Price{293_000, 293_000, 2_253_000, 0, 0, nil}},
	{"@cf/meta/llama-3.3-70b-instruct-fp8-fast", Price{293_000, 293_000, 2_253_000, 0, 0, nil}},
	{"@cf/deepseek-ai/deepseek-r1-distill-qwen-32b", Price{497_000, 497_000, 4_881_000, 0, 0, nil}},
	{"@cf/mistral/mistral-7b-instruct-v0.1", Price{110_000, 110_000, 190_000, 0, 0, nil}},
	{"@cf/meta/llama-3.1-8b-instruct", Price{282_000, 282_000, 827_000, 0, 0, nil}},
	{"@cf/meta/llama-3.1-8b-instruct-fp8", Price{152_000, 152_000, 287_000, 0, 0, nil}},
	{"@cf/meta/llama-3.1-8b-instruct-awq", Price{123_000, 123_000, 266_000, 0, 0, nil}},
	{"@cf/meta/llama-3-8b-instruct", Price{282_000, 282_000, 827_000, 0, 0, nil}},
	{"@cf/meta/llama-3-8b-instruct-awq", Price{123_000, 123_000, 266_000, 0, 0, nil}},
	{"@cf/meta/llama-2-7b-chat-fp16", Price{556_000, 556_000, 6_667_000, 0, 0, nil}},
	{"@cf/baai/bge-small-en-v1.5", Price{20_000, 20_000, 0, 0, 0, nil}},
	{"@cf/baai/bge-base-en-v1.5", Price{67_000, 67_000, 0, 0, 0, nil}},
	{"@cf/baai/bge-large-en-v1.5", Price{204_000, 204_000, 0, 0, 0, nil}},
}
