package cmd

import (
	"os/user"
	"testing"
)

func TestAccountNameIsTheSystems(t *testing.T) {
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("USER", "somebody-else")
	t.Setenv("LOGNAME", "somebody-else")
	if got := accountName(me.Uid); got != me.Username {
		t.Errorf("my account: %s, want %s", got, me.Username)
	}
	if got := accountName("4000000001"); got != "uid 4000000001" {
		t.Errorf("an account without a name: %s", got)
	}
}
