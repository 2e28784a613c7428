package cmd

import (
	"testing"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// What a broker or a provider answers may quote a secret.
func TestFindingsHideSecrets(t *testing.T) {
	t.Parallel()
	f := &findings{}
	f.say("queue q", broker.Bad, "open", "bad request: %s", "password=hunter2")
	if got := f.views[0].Detail; got != "bad request: password=***" {
		t.Errorf("%q", got)
	}
}
