package models_test

import (
	"reflect"
	"testing"

	"agent9/namespace/budget"
	"agent9/providers/models"
)

func TestPriceOf(t *testing.T) {
	for name, want := range map[string]budget.Micros{
		"gpt-5":                      1_250_000,
		"gpt-5-2025-08-07":           1_250_000,
		"gpt-5-mini":                 250_000,
		"gpt-4o-2024-05-13":          5_000_000,
		"gpt-4o-2024-08-06":          2_500_000,
		"o1-2024-12-17":              15_000_000,
		"claude-sonnet-4-5-20250929": 3_000_000,
		"claude-sonnet-5-5":          2_000_000,
		"@cf/meta/llama-3.3-70b-instruct-fp8-fast": 293_000,
		"gpt-5-pro":         0, // another model, whose price is not known here
		"gpt-50":            0,
		"claude-sonnet-4-9": 0,
		"claude-sonnet":     0,
		"":                  0,
	} {
		switch p := models.PriceOf(name); {
		case p == nil && want != 0:
			t.Errorf("the price of %q is not known", name)
		case p != nil && p.Input != want:
			t.Errorf("the price of %q is %+v, want %d", name, *p, want)
		}
	}
	mine := models.PriceOf("gpt-5.4")
	mine.Input, mine.Long.Input = 0, 0
	if again := models.PriceOf("gpt-5.4"); again.Input == 0 || again.Long.Input == 0 || reflect.DeepEqual(mine, again) {
		t.Error("a caller changed the table")
	}
}

func TestCost(t *testing.T) {
	p := models.Price{Input: 1_000_000, Cached: 100_000, Output: 5_000_000, Write: 1_250_000, LongOver: 1000, Long: &models.Price{Input: 2_000_000}}
	for _, c := range []struct {
		usage models.Usage
		want  budget.Micros
	}{
		{models.Usage{Input: 100, Output: 10}, 150},
		{models.Usage{Input: 100, Cached: 50, Output: 10}, 105},
		{models.Usage{Input: 100, Cached: 50, Written: 40}, 65},
		{models.Usage{Input: 1, Output: 1, Percent: 250, Fees: 7}, 22}, // 6 × 2.5, and the fee as it is
		{models.Usage{Input: 100, Percent: 10}, 100},                   // is never less
		{models.Usage{Input: 1 << 60, Percent: 1 << 62}, budget.Most},
		{models.Usage{Input: 100, Cached: 1}, 100},    // a tenth of a micro-dollar is one
		{models.Usage{Input: 100, Cached: 1000}, 10},  // cannot be more than all
		{models.Usage{Input: 1000}, 1000},             // not long yet
		{models.Usage{Input: 1001, Output: 9}, 2002},  // long
		{models.Usage{Input: -5, Output: -5}, 0},      // cannot be
		{models.Usage{Output: 1 << 62}, budget.Most},  // more than there is
		{models.Usage{Cached: 7, Written: 7}, 0},      // of nothing
		{models.Usage{Input: 1, Written: 1 << 40}, 2}, // cannot be more than all; 1.25 is 2
	} {
		if got := p.Cost(c.usage); got != c.want {
			t.Errorf("%+v costs %d, want %d", c.usage, got, c.want)
		}
	}
	if got := (models.Price{Input: 1_000_000}).Cost(models.Usage{Input: 10, Cached: 10}); got != 10 {
		t.Errorf("without a price of reading it costs %d, want 10", got)
	}
	if got := (models.Price{Input: 1_000_000}).WithOutput().Cost(models.Usage{Input: 10, Output: 10}); got != 20 {
		t.Errorf("without a price of output it costs %d, want 20", got)
	}
	if got := (models.Load{Percent: 100, Cache: true}).Price(models.Price{Input: 1_000_000}); got.Write < 1_250_000 {
		t.Errorf("a token in the cache costs %d", got.Write)
	}
	if got := (models.Price{Input: 1_000_000, Write: 1}).Cost(models.Usage{Input: 10, Written: 10}); got != 10 {
		t.Errorf("written to the cache it costs %d, want no less than 10", got)
	}
	if got := (models.Price{Input: 1_000_000}).Cost(models.Usage{Input: 10, Written: 5}); got != 10 {
		t.Errorf("without a price of writing it costs %d, want 10", got)
	}
}

// What a provider states counts if it is more than what it counted, up to ten times
// what was held; beyond that nothing that it says does.
func TestBill(t *testing.T) {
	p := &models.Price{Input: 1_000_000, Output: 1_000_000}
	counted := models.Usage{Input: 10, Output: 10}
	for _, c := range []struct {
		price     *models.Price
		cost      budget.Micros
		estimated bool
		percent   int64
		want      budget.Micros
	}{
		{p, 0, false, 0, 20}, {p, 15, false, 0, 20}, {p, 25, false, 0, 25}, {p, 250, false, 0, 250}, {p, 1000, false, 0, 1000},
		{p, 1001, false, 0, 100}, {p, budget.Most, false, 0, 100}, {p, 1<<63 - 1, false, 0, 100}, {p, 25, false, 250, 50},
		{p, 0, true, 0, 100}, {p, 25, true, 0, 100}, {p, 250, true, 0, 250}, {p, 1001, true, 0, 100}, {p, 1001, true, 250, 250},
		{nil, 0, false, 0, 100}, {nil, 25, false, 0, 100}, {nil, 250, false, 0, 250},
	} {
		u := counted
		u.Cost, u.Estimated, u.Percent = c.cost, c.estimated, c.percent
		if got := c.price.Bill(u, 100); got != c.want {
			t.Errorf("%+v: got %d, want %d", c, got, c.want)
		}
	}
}
