// Package expr compiles the CEL expressions that people write into policies and
// configurations: of a kind, of bounded cost, and with each fault at its place.
package expr

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
)

// Compiled is an expression that was checked and may be evaluated by several
// goroutines at once.
type Compiled struct {
	Tree *cel.Ast
	Run  cel.Program

	reads  map[string]bool // variables
	places map[int64]bool  // the nodes that read a variable, a field or an element
}

// Fault is what is wrong with an expression. Line counts from 1 and Column from 0
// within the expression.
type Fault struct {
	Line, Column int
	Message      string
}

// Error is the message alone: the place means nothing without the file's.
func (f *Fault) Error() string { return f.Message }

// Compile checks an expression that must give one of the kinds. Its evaluation
// fails once it has cost more than the limit. A mistake in the text is a *Fault.
func Compile(env *cel.Env, text string, limit uint64, kinds ...*cel.Type) (Compiled, error) {
	tree, issues := env.Compile(text)
	if issues != nil && issues.Err() != nil {
		first := issues.Errors()[0]
		return Compiled{}, &Fault{first.Location.Line(), first.Location.Column(), first.Message}
	}
	if !gives(tree, kinds) {
		return Compiled{}, &Fault{1, 0, fmt.Sprintf("gives %s, not %s", tree.OutputType(), names(kinds))}
	}
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize)}
	if !cheap(tree) || uint64(len(text)) > limit {
		options = append(options, cel.CostLimit(limit), cel.CostTracking(bySize{}))
	}
	run, err := env.Program(tree, options...)
	if err != nil {
		return Compiled{}, &Fault{1, 0, err.Error()}
	}
	c := Compiled{Tree: tree, Run: run}
	c.survey()
	return c, nil
}

// cheap reports that an evaluation costs at most as much as the expression is
// long: it has no loop, calls no function, and compares with what is written in it
// alone. Counting the cost takes longer than such an evaluation.
func cheap(tree *cel.Ast) bool {
	root := celast.NavigateAST(tree.NativeRep())
	for _, n := range celast.MatchDescendants(root, celast.AllMatcher()) {
		switch n.Kind() {
		case celast.LiteralKind, celast.IdentKind, celast.SelectKind:
		case celast.ListKind:
			if !written(n) {
				return false
			}
		case celast.CallKind:
			if !cheapCall(n.AsCall()) {
				return false
			}
		default:
			return false
		}
	}
	return true
}

func cheapCall(c celast.CallExpr) bool {
	switch c.FunctionName() {
	case operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot:
		return true
	case operators.Equals, operators.NotEquals, operators.Less, operators.LessEquals, operators.Greater, operators.GreaterEquals:
		return slices.ContainsFunc(c.Args(), written)
	case operators.In:
		return written(c.Args()[1])
	default:
		return false
	}
}

// written reports that a value stands in the expression: a literal, or a list of
// such.
func written(e celast.Expr) bool {
	if e.Kind() == celast.ListKind {
		return !slices.ContainsFunc(e.AsList().Elements(), func(e celast.Expr) bool { return e.Kind() != celast.LiteralKind })
	}
	return e.Kind() == celast.LiteralKind
}

func gives(tree *cel.Ast, kinds []*cel.Type) bool {
	for _, k := range kinds {
		if tree.OutputType().Kind() == k.Kind() {
			return true
		}
	}
	return false
}

// names lists kinds in words. Any value at all (dyn) is what a person need not be
// told of: it becomes one of the others when it is evaluated.
func names(kinds []*cel.Type) string {
	var words []string
	for _, k := range kinds {
		if k.Kind() != types.DynKind && k.Kind() != types.NullTypeKind {
			words = append(words, strings.ToLower(strings.TrimPrefix(k.String(), "google.protobuf.")))
		}
	}
	return strings.Join(words, " or ")
}

// survey notes once what Absent and Mentions are asked about for every message.
func (c *Compiled) survey() {
	c.reads, c.places = map[string]bool{}, map[int64]bool{}
	root := celast.NavigateAST(c.Tree.NativeRep())
	for _, n := range celast.MatchDescendants(root, celast.AllMatcher()) {
		switch n.Kind() {
		case celast.IdentKind:
			c.reads[n.AsIdent()], c.places[n.ID()] = true, true
		case celast.SelectKind:
			c.places[n.ID()] = true
		case celast.CallKind:
			c.places[n.ID()] = n.AsCall().FunctionName() == operators.Index
		}
	}
}

// Absent reports whether an evaluation failed because something that the
// expression names is not there: a key, an index, a field of a value that has
// none.
func (c Compiled) Absent(err error) bool {
	var at *types.Err
	return errors.As(err, &at) && c.places[at.NodeID()]
}

// Mentions reports whether the expression reads a variable.
func (c Compiled) Mentions(name string) bool { return c.reads[name] }

// Place is where a fault of the expression at a YAML node stands in the file, both
// from 1. CEL counts from the beginning of the expression and knows nothing of
// quotes and blocks.
func (f *Fault) Place(n ast.Node) (line, column int) {
	if block, ok := n.(*ast.LiteralNode); ok {
		at := block.Start.Position
		return at.Line + f.Line, indent(block) + f.Column + 1
	}
	t := n.GetToken()
	line, column = t.Position.Line, t.Position.Column
	if f.Line > 1 {
		return line, column
	}
	if t.Type == token.DoubleQuoteType || t.Type == token.SingleQuoteType {
		column++
	}
	return line, column + f.Column
}

// indent is how far the lines of a block stand from the margin.
func indent(block *ast.LiteralNode) int {
	first, _, _ := strings.Cut(strings.TrimLeft(block.Value.GetToken().Origin, "\n"), "\n")
	return len(first) - len(strings.TrimLeft(first, " "))
}
