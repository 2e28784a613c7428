package redrive

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// readPlan decodes a plan item by item, since a plan can name all of a queue:
// beside the bytes and the items there is one item at a time, and a text that
// many items share is kept once.
func readPlan(canonical []byte, strict bool) (Plan, error) {
	d := json.NewDecoder(bytes.NewReader(canonical))
	if strict {
		d.DisallowUnknownFields()
	}
	if err := delim(d, '{'); err != nil {
		return Plan{}, err
	}
	var items []Item
	rest := map[string]json.RawMessage{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return Plan{}, err
		}
		if name == "items" {
			items, err = readItems(d, bytes.Count(canonical, []byte(`"decision_row":`)))
		} else {
			var value json.RawMessage
			err = d.Decode(&value)
			rest[name.(string)] = value
		}
		if err != nil {
			return Plan{}, err
		}
	}
	if err := delim(d, '}'); err != nil {
		return Plan{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Plan{}, errors.New("something stands behind it")
	}
	p, err := readRest(rest, strict)
	p.Items = items
	return p, err
}

func delim(d *json.Decoder, want json.Delim) error {
	got, err := d.Token()
	if err == nil && got != want {
		err = errors.New("it is no plan")
	}
	return err
}

// readRest decodes all but the items.
func readRest(rest map[string]json.RawMessage, strict bool) (p Plan, err error) {
	b, err := json.Marshal(rest)
	if err != nil {
		return p, err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	if strict {
		d.DisallowUnknownFields()
	}
	return p, d.Decode(&p)
}

// readItems decodes an array of about n items.
func readItems(d *json.Decoder, n int) ([]Item, error) {
	if err := delim(d, '['); err != nil {
		return nil, err
	}
	items, same := make([]Item, 0, n), shared{}
	for d.More() {
		var it Item
		if err := d.Decode(&it); err != nil {
			return nil, err
		}
		same.item(&it)
		items = append(items, it)
	}
	return items, delim(d, ']')
}

// shared keeps each text once.
type shared map[string]string

func (s shared) item(it *Item) {
	for _, text := range []*string{
		&it.Copy.Entity, &it.Consumer, &it.Origin, &it.OrderKey, &it.Destination, (*string)(&it.Class), &it.Rule,
		(*string)(&it.Effect), (*string)(&it.Disposition), &it.LedgerState, &it.LedgerRun, (*string)(&it.Verdict),
		(*string)(&it.Action), &it.Why, &it.Lift, &it.Period, &it.Region, &it.SchemaVersion, &it.DeploymentID, &it.Customer,
	} {
		if was, ok := s[*text]; ok {
			*text = was
		} else {
			s[*text] = *text
		}
	}
	if it.MessageID == it.Copy.ID {
		it.MessageID = it.Copy.ID
	}
	if it.BodySHA256 == it.PayloadSHA256 {
		it.BodySHA256 = it.PayloadSHA256
	}
}
