package cmd

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// raceOptions are those of the race detector in all processes of the tests.
const raceOptions = "atexit_sleep_ms=0"

// TestMain makes this test binary the program as well: a script that runs
// "redrivectl" runs Main in a process of its own. So run the parts of
// BenchmarkSQS.
func TestMain(m *testing.M) {
	// A program with the race detector in it waits a second before it ends, which
	// the hundreds of processes of these tests would add up to half an hour.
	if err := os.Setenv("GORACE", raceOptions); err != nil {
		panic(err)
	}
	testscript.Main(m, map[string]func(){
		"redrivectl": func() { os.Exit(Main()) }, benchServerName: benchServer, benchMoverName: benchMover,
	})
}

// TestScripts runs the scripts of testdata/script. Each shows one behaviour from
// the outside, through the real entry point, on the embedded parts.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		Setup:               scriptSetup,
		Cmds:                scriptCommands(),
		Condition:           scriptCondition,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
	})
}

// scriptSetup gives every script an empty home and no terminal, and the samples
// of the decoders under $SAMPLES, configs to begin with under $CONFIGS, and the
// pages under $DOCS.
func scriptSetup(env *testscript.Env) error {
	samples, err := filepath.Abs("../internal/job/testdata/samples")
	if err != nil {
		return err
	}
	configs, err := filepath.Abs("testdata/config")
	if err != nil {
		return err
	}
	docs, err := filepath.Abs("../docs")
	if err != nil {
		return err
	}
	home := filepath.Join(env.WorkDir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	env.Setenv("HOME", home)
	env.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(home, "config"))
	env.Setenv("LF", "\n")
	env.Setenv("MANY", manyMessages)
	env.Setenv("GORACE", raceOptions)
	env.Setenv("CI", "")
	env.Setenv("REDRIVECTL_CONFIG", "")
	env.Setenv("REDRIVECTL_ACTOR", "")
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_SQS"} {
		env.Setenv(name, "")
	}
	env.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	env.Setenv("SAMPLES", samples)
	env.Setenv("CONFIGS", configs)
	env.Setenv("DOCS", docs)
	env.Values[providerKey{}] = &scriptProvider{}
	env.Values[sqsKey{}] = &scriptQueues{}
	return nil
}
