package store_test

import (
	"context"
	"errors"
	"testing"

	"github.com/redrivectl/redrivectl/redrive"
)

// TestBindRegion: the first region stays, and its record is written once.
func TestBindRegion(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	f := open(t)
	if region, err := f.Region(ctx); region != "" || err != nil {
		t.Fatal(region, err)
	}
	for range 2 {
		if err := f.BindRegion(ctx, "eu-west-1", doneRecord("bind_region")); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.BindRegion(ctx, "us-east-1", doneRecord("bind_region")); !errors.Is(err, redrive.ErrRefused) {
		t.Error("bound to another:", err)
	}
	if region, err := f.Region(ctx); region != "eu-west-1" || err != nil {
		t.Error(region, err)
	}
	if head, err := f.AuditHead(ctx); head.Seq != 1 || err != nil {
		t.Error(head, err)
	}
}
