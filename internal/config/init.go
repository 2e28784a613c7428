package config

import (
	_ "embed"
	"fmt"
)

//go:embed init_local.yaml
var initLocal string

// InitText is the commented configuration that `redrivectl init` writes for a
// broker. It loads as it stands; every key is in it, with its default, behind a
// # that may be taken away.
func InitText(broker Broker) (string, error) {
	if broker != Local {
		return "", fmt.Errorf("write a configuration for broker %q: it is not in this build, which has %s", broker, Local)
	}
	return initLocal, nil
}
