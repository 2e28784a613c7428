package classify

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
)

var className = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// check finds what the types of the file do not: unknown words, missing parts,
// limits that are loosened.
func (s source) check(f file) error {
	var errs []error
	if f.Policy != FileVersion {
		errs = append(errs, s.fault("$.policy", "policy must be %q, not %q", FileVersion, f.Policy))
	}
	for _, name := range slices.Sorted(maps.Keys(f.Classes)) {
		errs = append(errs, s.checkClass(name, f.Classes[name]))
	}
	errs = append(errs, s.checkRules(f), s.checkLimit("$.self_max", f.SelfMax, DefaultSelfMax), s.checkLimit("$.redrive_cap", f.RedriveCap, DefaultRedriveCap),
		s.checkLimit("$.break_glass", f.BreakGlass, MostBreakGlass), s.checkRetry(f.Retry))
	return errors.Join(errs...)
}

func (s source) checkClass(name Class, c class) error {
	path := "$.classes." + string(name)
	switch {
	case !className.MatchString(string(name)):
		return s.fault("$.classes", "class name %q: use lower-case letters, digits and underscores", name)
	case c.Effect != EffectNone && c.Effect != EffectUnknown:
		return s.fault(path+".effect", "effect of class %s must be none or unknown, not %q", name, c.Effect)
	case !slices.Contains([]Disposition{Retry, Fix, Alert, Discard, Hold}, c.Disposition):
		return s.fault(path+".disposition", "disposition of class %s must be retry, fix, alert, discard or hold, not %q", name, c.Disposition)
	case name == Unknown && (c.Effect != EffectUnknown || c.Disposition != Hold):
		return s.fault(path, "class unknown must have effect unknown and disposition hold")
	case (name == Stale || name == Expired) && c.Disposition != Discard && c.Disposition != Hold:
		return s.fault(path+".disposition", "disposition of class %s must be discard or hold, not %q", name, c.Disposition)
	}
	return nil
}

func (s source) checkRules(f file) error {
	var errs []error
	if len(f.Rules) == 0 {
		errs = append(errs, s.fault("$.rules", "the policy has no rules"))
	}
	seen := map[string]int{}
	for i, r := range f.Rules {
		path := fmt.Sprintf("$.rules[%d]", i)
		first, again := seen[r.Name]
		switch {
		case r.Name == "":
			errs = append(errs, s.fault(path, "rule %d has no name", i+1))
		case r.Name == NoRule || r.Name == MaxAgeRule || r.Name == BrokerRule:
			errs = append(errs, s.fault(path+".name", "rule name %q is reserved", r.Name))
		case again:
			line, _ := s.position(fmt.Sprintf("$.rules[%d].name", first))
			errs = append(errs, s.fault(path+".name", "duplicate rule %q, first on line %d", r.Name, line))
		case r.When == "":
			errs = append(errs, s.fault(path, "rule %q has no condition", r.Name))
		}
		if _, ok := f.Classes[r.Class]; !ok && r.Class != Unknown {
			errs = append(errs, s.fault(path+".class", "rule %q: class %q is not defined", r.Name, r.Class))
		}
		if !again {
			seen[r.Name] = i
		}
	}
	return errors.Join(errs...)
}

// checkLimit refuses a limit above the default: a policy can only tighten.
func (s source) checkLimit(path string, v *int, most int) error {
	if v != nil && (*v < 0 || *v > most) {
		return s.fault(path, "must be 0 to %d (a policy can only tighten it), not %d", most, *v)
	}
	return nil
}
