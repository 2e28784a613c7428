package cmd

import (
	"encoding/json"
	"fmt"

	"github.com/redrivectl/redrivectl/internal/broker"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/ledger"
)

const (
	demoPeriod     = "2026-W20"
	demoDeployment = "mailer-118"
)

// demoEnvelope is the job in the tool's own envelope; see docs/envelope.md.
type demoEnvelope struct {
	Format        string       `json:"format"`
	JobKey        string       `json:"job_key"`
	Subject       string       `json:"subject"`
	Version       string       `json:"version"`
	Kind          demoKind     `json:"kind"`
	Channel       string       `json:"channel"`
	Customer      demoCustomer `json:"customer"`
	Period        string       `json:"period"`
	Region        string       `json:"region"`
	SchemaVersion string       `json:"schema_version"`
	DeploymentID  string       `json:"deployment_id"`
	Payload       any          `json:"payload"`
}

type demoCustomer struct {
	ID     string `json:"id"`
	Status string `json:"status"`
}

// message is the job as the application publishes it.
func (j demoJob) message() (broker.Message, error) {
	body, err := json.Marshal(demoEnvelope{
		Format: job.FormatOwn, JobKey: j.key, Subject: j.subject, Version: j.version, Kind: j.kind, Channel: "email",
		Customer: demoCustomer{ID: j.customer, Status: "active"}, Period: demoPeriod, Region: j.region,
		SchemaVersion: j.schema, DeploymentID: demoDeployment, Payload: j.payload(),
	})
	if err != nil {
		return broker.Message{}, fmt.Errorf("encode job %s: %w", j.key, err)
	}
	m := broker.Message{Body: body, Attributes: []broker.Attribute{textAttribute("content-type", "application/json")}}
	if j.broken {
		// Cut off behind the marker: not even its key can be read from the body.
		m.Body = body[:len(`{"format":"redrivectl/v1","job_`)]
		if !j.nameless {
			m.Attributes = append(m.Attributes, textAttribute("job_key", j.key), textAttribute("region", j.region))
		}
	}
	return m, nil
}

func textAttribute(name, value string) broker.Attribute {
	return broker.Attribute{Name: name, Type: "String", Value: []byte(value)}
}

func (j demoJob) payload() any {
	if j.kind == demoDigest {
		return map[string]any{"template": "weekly-digest", "week": demoPeriod, "articles": []string{"a-17", "a-23", "a-31"}}
	}
	return map[string]any{"template": "shipment-update", "shipment": j.subject, "status": "out_for_delivery"}
}

// row is what the application writes into its ledger when it enqueues the job.
// The payload's hash is that of the bytes that a reader will find.
func (j demoJob) row(m broker.Message) ledger.NewRow {
	return ledger.NewRow{
		Key: ledger.Key{JobKey: j.key, Consumer: demoConsumer}, Subject: j.subject, Version: j.version,
		PayloadSHA256: job.Decode(m, demoQueue).PayloadSHA256, Region: j.region, CustomerID: j.customer, Actor: "application",
	}
}
