package expr

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/ext"
)

// Functions are what expressions over messages may call beside CEL's own:
// sha256(text or bytes), which gives lower-case hex, base64.decode and
// base64.encode, and the functions on strings (split, substring, replace,
// lowerAscii, …).
func Functions() cel.EnvOption {
	return func(e *cel.Env) (*cel.Env, error) {
		for _, o := range []cel.EnvOption{ext.Strings(), ext.Encoders(), sha256Function()} {
			var err error
			if e, err = o(e); err != nil {
				return nil, err
			}
		}
		return e, nil
	}
}

func sha256Function() cel.EnvOption {
	return cel.Function(
		"sha256",
		cel.Overload("sha256_string", []*cel.Type{cel.StringType}, cel.StringType, cel.UnaryBinding(func(v ref.Val) ref.Val {
			s, ok := v.(types.String)
			if !ok {
				return types.MaybeNoSuchOverloadErr(v)
			}
			return digest([]byte(s))
		})),
		cel.Overload("sha256_bytes", []*cel.Type{cel.BytesType}, cel.StringType, cel.UnaryBinding(func(v ref.Val) ref.Val {
			b, ok := v.(types.Bytes)
			if !ok {
				return types.MaybeNoSuchOverloadErr(v)
			}
			return digest(b)
		})),
	)
}

func digest(b []byte) ref.Val {
	sum := sha256.Sum256(b)
	return types.String(hex.EncodeToString(sum[:]))
}

// bytesPerCost is how many bytes a function may read or make for one unit of
// cost: it takes them in one go, where CEL takes a step for each value.
const bytesPerCost = 100

// bySize makes a function whose cost CEL does not know as costly as what it reads
// and gives is long.
type bySize struct{}

// CallCost is nil for what is counted by CEL itself.
func (bySize) CallCost(function, _ string, args []ref.Val, result ref.Val) *uint64 {
	switch function {
	case operators.Add, operators.In, "matches", "contains", "size": // CEL counts these only where their types are known beforehand
	case "sha256", "base64.decode", "base64.encode", "replace", "split", "join", "format", "lowerAscii", "upperAscii", "trim", "reverse", "substring":
	default:
		return nil
	}
	cost := 1 + sizeOf(result)/bytesPerCost
	for _, a := range args {
		cost += sizeOf(a) / bytesPerCost
	}
	return &cost
}

func sizeOf(v ref.Val) uint64 {
	s, ok := v.(traits.Sizer)
	if !ok {
		return 0
	}
	n, ok := s.Size().(types.Int)
	if !ok {
		return 0
	}
	return uint64(n)
}
