package cmd

import (
	"strings"

	"github.com/redrivectl/redrivectl/internal/classify"
)

func classNames() []string {
	p, err := classify.Default()
	if err != nil {
		return nil
	}
	return classesOf(p)
}

// hasClasses refuses a class that the policy does not have beside others that it
// has: it would select nothing, and nobody would notice. Alone it makes an empty
// selection, whose refusal names the classes that the queue has.
func hasClasses(p *classify.Policy, names []string) error {
	var unknown []string
	for _, name := range names {
		if !p.Has(classify.Class(name)) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 || len(unknown) == len(names) {
		return nil
	}
	return usagef("--class %s: the policy has no such class; it has: %s", strings.Join(unknown, ","), strings.Join(classesOf(p), ", "))
}

func classesOf(p *classify.Policy) []string {
	var names []string
	for _, c := range p.Classes() {
		names = append(names, string(c))
	}
	return names
}
