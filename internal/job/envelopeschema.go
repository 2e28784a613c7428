package job

import (
	"encoding/json"
	"fmt"
)

// base64Pattern is what base64.StdEncoding decodes, which passes over line ends.
const base64Pattern = `^[\r\n]*(?:(?:[A-Za-z0-9+/][\r\n]*){4})*` +
	`(?:(?:[A-Za-z0-9+/][\r\n]*){2}=[\r\n]*=[\r\n]*|(?:[A-Za-z0-9+/][\r\n]*){3}=[\r\n]*)?$`

type schema map[string]any

// EnvelopeSchema is the JSON Schema (draft 2020-12) of the tool's own envelope,
// made of the same fields that the decoder checks: what it refuses is malformed,
// and the other way round. That a key stands twice only the decoder sees.
func EnvelopeSchema() ([]byte, error) {
	properties := schema{"format": schema{"const": FormatOwn, "description": "The marker. Put it first: an envelope that is cut short is then still known as one."}}
	var one []schema
	for _, f := range payloadFields() {
		s := f.schema()
		if f.kind == aString {
			s["type"], s["pattern"], s["contentEncoding"] = "string", base64Pattern, "base64"
		}
		properties[f.name] = s
		one = append(one, schema{"required": []string{f.name}})
	}
	for _, f := range ownFields() {
		properties[f.name] = f.schema()
	}
	b, err := json.MarshalIndent(schema{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "redrivectl envelope",
		"type": "object", "properties": properties, "required": []string{"format"}, "oneOf": one,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write JSON Schema of the envelope: %w", err)
	}
	return append(b, '\n'), nil
}

func (f ownField) schema() schema {
	s := schema{"description": f.doc}
	switch f.kind {
	case aString:
		s["type"] = []string{"string", "null"}
	case anInteger:
		s["type"] = []string{"integer", "null"}
	case aStringOrInteger:
		s["type"] = []string{"string", "integer", "null"}
	case anObject:
		s["type"], s["properties"] = []string{"object", "null"}, f.properties()
	case aList:
		s["type"], s["items"] = []string{"array", "null"}, schema{"type": "object", "properties": f.properties()}
	}
	return s
}

func (f ownField) properties() schema {
	ps := schema{}
	for _, inner := range f.fields {
		ps[inner.name] = inner.schema()
	}
	return ps
}
