package classify

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/redrivectl/redrivectl/internal/expr"
	"github.com/redrivectl/redrivectl/internal/job"
)

// costLimit bounds the evaluation of one rule, so that a rule cannot hang a
// listing. Ordinary rules cost less than 1000.
const costLimit = 1_000_000

// rule is one compiled rule.
type rule struct {
	name  string
	class Class
	when  string
	line  int
	run   cel.Program
}

// match tries the rules in order. A rule that cannot be evaluated ends the
// search: no error may let a later, laxer rule decide.
func (p *Policy) match(f *facts) (Class, string) {
	for _, r := range p.rules {
		ok, err := r.matches(f)
		if err != nil {
			return Unknown, ErrorPrefix + r.name
		}
		if ok {
			return r.class, r.name
		}
	}
	return Unknown, NoRule
}

func (r rule) matches(f *facts) (bool, error) {
	out, _, err := r.run.Eval(f)
	if err != nil {
		return false, fmt.Errorf("rule %s: %w", r.name, expr.Quiet(err))
	}
	return out == types.True, nil
}

// Trial is what one rule said of a job.
type Trial struct {
	Name    string
	Class   Class
	When    string
	Line    int // in the policy file, from 1
	Matched bool
	Decided bool  // the first that matched
	Err     error // the rule could not be evaluated
}

// Explanation is how a job came to its class.
type Explanation struct {
	Result  Result
	Cause   job.Cause
	Message string // the reason's text without its variable parts
	Trials  []Trial
}

// Explain classifies a job and says of every rule whether it matched, also of
// those after the one that decided.
func (p *Policy) Explain(j job.Job, now time.Time) Explanation {
	f := newFacts(&j, now)
	e := Explanation{Result: p.Classify(j, now), Cause: f.cause, Message: Normalise(j.Failure.Message)}
	decided := false
	for _, r := range p.rules {
		ok, err := r.matches(f)
		e.Trials = append(e.Trials, Trial{Name: r.name, Class: r.class, When: r.when, Line: r.line, Matched: ok, Err: err, Decided: ok && !decided})
		decided = decided || ok || err != nil
	}
	return e
}

// compile compiles the rules and refuses those that can never decide.
func (p *Policy) compile(src source, rules []fileRule) error {
	env, err := newEnv()
	if err != nil {
		return fmt.Errorf("environment of the rules: %w", err)
	}
	c := compiler{src: src, env: env, seen: map[string]string{}}
	var errs []error
	for i, fr := range rules {
		r, err := c.rule(i, fr)
		errs = append(errs, err)
		p.rules = append(p.rules, r)
	}
	return errors.Join(errs...)
}

// compiler remembers, from rule to rule, what makes later ones unreachable.
type compiler struct {
	src    source
	env    *cel.Env
	seen   map[string]string // condition in canonical form → rule
	always string            // the rule that matches everything
}

func (c *compiler) rule(i int, fr fileRule) (rule, error) {
	path := fmt.Sprintf("$.rules[%d].when", i)
	condition, err := expr.Compile(c.env, fr.When, costLimit, cel.BoolType)
	if err != nil {
		return rule{}, c.celFault(path, fr, err)
	}
	line, _ := c.src.position(fmt.Sprintf("$.rules[%d]", i))
	r := rule{name: fr.Name, class: fr.Class, when: fr.When, line: line, run: condition.Run}
	return r, c.reachable(path, fr, condition)
}

// celFault places what is wrong with an expression.
func (c *compiler) celFault(path string, fr fileRule, err error) error {
	var fault *expr.Fault
	node := c.src.node(path)
	if !errors.As(err, &fault) || node == nil {
		return c.src.fault(path, "rule %q: the condition %w", fr.Name, err)
	}
	line, column := fault.Place(node)
	return fmt.Errorf("%s:%d:%d: rule %q: %s", c.src.name, line, column, fr.Name, fault.Message)
}

// reachable refuses a rule after one that always matches, one that repeats an
// earlier condition, and one whose condition is a constant false.
func (c *compiler) reachable(path string, fr fileRule, condition expr.Compiled) error {
	if c.always != "" {
		return c.src.fault(path, "rule %q is unreachable: rule %q before it always matches", fr.Name, c.always)
	}
	form, err := cel.AstToString(condition.Tree)
	if err != nil {
		return c.src.fault(path, "rule %q: %w", fr.Name, err)
	}
	if first, ok := c.seen[form]; ok {
		return c.src.fault(path, "rule %q is unreachable: rule %q has the same condition", fr.Name, first)
	}
	c.seen[form] = fr.Name
	switch constant(condition.Tree, condition.Run) {
	case types.True:
		c.always = fr.Name
	case types.False:
		return c.src.fault(path, "rule %q is unreachable: its condition is never true", fr.Name)
	}
	return nil
}
