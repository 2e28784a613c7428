package redrive

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// readPlan decodes a plan item by item, since a plan can name all of a queue. It
// hands out each item, with where it stands, and returns the plan without them.
func readPlan(from io.Reader, strict bool, item func(it Item, from, to int64)) (Plan, error) {
	d := json.NewDecoder(from)
	if strict {
		d.DisallowUnknownFields()
	}
	if err := delim(d, '{'); err != nil {
		return Plan{}, err
	}
	rest, twice := map[string]json.RawMessage{}, false
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return Plan{}, err
		}
		if name == "items" {
			if twice {
				return Plan{}, errors.New("it has two lists of items")
			}
			twice, err = true, readItems(d, item)
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
	return readRest(rest, strict)
}

// readWhole decodes a plan with its items. A text that many of them share is kept
// once.
func readWhole(canonical []byte, strict bool) (Plan, error) {
	items, same := make([]Item, 0, bytes.Count(canonical, []byte(`"decision_row":`))), shared{}
	p, err := readPlan(bytes.NewReader(canonical), strict, func(it Item, _, _ int64) {
		same.item(&it)
		items = append(items, it)
	})
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

// readItems decodes an array of items.
func readItems(d *json.Decoder, item func(it Item, from, to int64)) error {
	if err := delim(d, '['); err != nil {
		return err
	}
	for d.More() {
		var it Item
		from := d.InputOffset()
		if err := d.Decode(&it); err != nil {
			return err
		}
		item(it, from, d.InputOffset())
	}
	return delim(d, ']')
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
