package cmd

import (
	"fmt"
	"io"
	"os"

	"github.com/redrivectl/redrivectl/redrive"
)

// namesPlanFile tells a FILE from a PLAN: no plan's name looks like a path.
func namesPlanFile(arg string) bool { return arg == "-" || looksLikeFile(arg) }

// maxPlanFile bounds what is read of a plan or an approval that was carried here.
const maxPlanFile = 512 << 20

// readArg reads a FILE argument; "-" is standard input.
func (a *app) readArg(path string) ([]byte, error) {
	from := a.stdin
	if path != "-" {
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		defer f.Close() //nolint:errcheck // Nothing was written.
		from = f
	}
	b, err := io.ReadAll(io.LimitReader(from, maxPlanFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", path, err)
	case len(b) > maxPlanFile:
		return nil, fmt.Errorf("read %s: it has more than %d bytes, as no plan and no approval has", path, maxPlanFile)
	default:
		return b, nil
	}
}

// stateOfFile is the state of a plan in a file, whose store alone knows better.
const stateOfFile = "unknown"

// planFile reads a plan that was carried here. Of its state a file tells nothing
// but that it is over.
func (a *app) planFile(path string) (redrive.StoredPlan, planView, error) {
	b, err := a.readArg(path)
	if err != nil {
		return redrive.StoredPlan{}, planView{}, err
	}
	sp, err := redrive.DecodePlan(b)
	if err != nil {
		return redrive.StoredPlan{}, planView{}, withHint(fmt.Errorf("%s: %w", path, err), "redrivectl plan export PLAN, where the plan was made")
	}
	sp.State = stateOfFile
	if !a.now().Before(sp.Plan.ExpiresAt) {
		sp.State = redrive.PlanExpired
	}
	return sp, newPlanView(sp.ID, sp.Plan, sp.State, 0), nil
}
