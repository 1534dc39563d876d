package ninep

import "testing"

func TestContinuation(t *testing.T) {
	const clip = 8168
	type step struct {
		off   uint64
		count uint32
		want  bool   // a continuation
		n     uint32 // the answer
	}
	for _, c := range []struct {
		name  string
		plain bool // 9P2000, or stream=plain
		steps []step
	}{
		{"the first read of a fid", false, []step{{0, clip, false, 5}}},
		{"the rest of a small read, then a new read", false,
			[]step{{0, 4096, false, 10}, {10, 4086, true, 0}, {10, 4096, false, 7}, {17, 4089, true, 0}}},
		{"data after a continuation continues again", false,
			[]step{{0, 100, false, 10}, {10, 90, true, 20}, {30, 70, true, 0}, {30, 100, false, 1}}},
		{"a filled small read is over", false,
			[]step{{0, 100, false, 100}, {100, 100, false, 5}}},
		{"a repeated small count is a new read", false,
			[]step{{0, 100, false, 10}, {10, 100, false, 5}}},
		{"a repeated small count that is the rest by chance", false,
			[]step{{0, 100, false, 50}, {50, 50, true, 0}}},
		{"another offset", false,
			[]step{{0, 100, false, 10}, {0, 90, false, 10}, {11, 90, false, 1}}},
		{"a large read that was clipped: the rest lies between", false,
			[]step{{0, clip, false, 10}, {10, clip - 10, true, 0}}},
		{"the same, with more asked for than the clip left", false,
			[]step{{0, clip, false, 1000}, {1000, clip - 3, true, 0}}},
		{"less than could be left is a new read", false,
			[]step{{0, clip, false, 10}, {10, clip - 11, false, 3}}},
		{"a clipped read of a larger buffer repeats the clip", false,
			[]step{{0, clip, false, 10}, {10, clip, true, 0}, {10, clip, false, 4}}},
		{"but not where that is ambiguous", true,
			[]step{{0, clip, false, 10}, {10, clip, false, 4}, {14, clip, false, 4}}},
		{"nothing at first, then the clip again", false,
			[]step{{0, clip, false, 0}, {0, clip, true, 0}, {0, clip, false, 9}}},
		{"a full clip, then the rest", true,
			[]step{{0, clip, false, clip}, {clip, 24, true, 0}, {clip, clip, false, 3}}},
		{"a full clip, then another is not decided yet", false,
			[]step{{0, clip, false, clip}, {clip, clip, false, clip}, {2 * clip, 100, true, 5}}},
	} {
		var s continuation
		for i, st := range c.steps {
			got := s.follows(st.off, st.count, clip, !c.plain)
			if got != st.want {
				t.Errorf("%s: step %d: continuation %v, want %v", c.name, i, got, st.want)
			}
			s.answered(st.off, st.count, st.n, got)
		}
	}
}

func TestContinuationForgets(t *testing.T) {
	var s continuation
	s.answered(0, 100, 10, false)
	s = continuation{} // what a flush does
	if s.follows(10, 90, 8168, true) {
		t.Error("a Tread after a flushed one was taken for its continuation")
	}
}
