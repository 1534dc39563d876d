package inbox

import (
	"context"
	"testing"

	"agent9/fsys"
	"agent9/store/mem"
)

// A message that was acknowledged since the list of those that wait was read is
// not given out again, though it can be had back for a while.
func TestAcknowledgedIsNotGivenAgain(t *testing.T) {
	in := New(mem.New(), Options{})
	ctx := fsys.WithCaller(context.Background(), "bob")
	if _, err := fsys.Converse(ctx, in.Root(), "new", []byte(`{"body":"once"}`)); err != nil {
		t.Fatal(err)
	}
	for d, err := range waiting.all(ctx, in.st) {
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.line(ctx, d.id, d.place); err != nil {
			t.Fatal(err)
		}
		if err := in.acknowledge(ctx, d.id, d.place); err != nil {
			t.Fatal(err)
		}
		if line, err := in.line(ctx, d.id, d.place); fsys.CodeOf(err) != fsys.NotExist || err == nil {
			t.Errorf("it is given again: %s, %v", line, err)
		}
		return
	}
	t.Fatal("no message waits")
}
