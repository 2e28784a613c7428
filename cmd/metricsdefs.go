package cmd

import "github.com/redrivectl/redrivectl/internal/metrics"

// The sources of figures, as the label source of redrivectl_source_up has them.
const (
	sourceBroker  = "broker"
	sourceCapture = "capture"
	sourceLedger  = "ledger"
	sourceStore   = "store"
)

// metricDefinitions are all figures. docs/metrics.md lists the same, and a test
// holds the two together. A label's value is never a text that a message chose:
// each comes from the config, the policy, the command line, or this program.
func metricDefinitions() []metrics.Definition {
	gauge := func(name, help string, labels ...string) metrics.Definition {
		return metrics.Definition{Name: "redrivectl_" + name, Kind: metrics.Gauge, Labels: labels, Help: help}
	}
	counter := func(name, help string, labels ...string) metrics.Definition {
		return metrics.Definition{Name: "redrivectl_" + name, Kind: metrics.Counter, Labels: labels, Help: help}
	}
	histogram := func(name, help string, labels ...string) metrics.Definition {
		return metrics.Definition{Name: "redrivectl_" + name, Kind: metrics.Histogram, Labels: labels, Help: help}
	}
	return []metrics.Definition{
		gauge("source_up", "Whether the source could be read (1) or not (0). What it cannot tell is left out.", "queue", "source"),
		gauge("collected_timestamp_seconds", "When these figures were collected, in seconds since 1970."),

		gauge("quarantined_copies", "Copies in the dead-letter queue, by what the broker says of them.", "queue", "state"),
		gauge("quarantined_counted_exactly", "Whether the broker counts copies exactly (1) or about (0).", "queue"),
		gauge("quarantined_oldest_age_seconds", "Since when the oldest copy in the dead-letter queue was sent.", "queue"),
		gauge("quarantine_retention_seconds", "How long the dead-letter queue keeps a copy; left out where for ever.", "queue"),

		gauge("look_age_seconds", "How long ago the look was made that the figures of jobs rest on.", "queue"),
		gauge("look_complete", "Whether that look saw the whole queue (1) or not (0).", "queue"),
		gauge("jobs", "Quarantined jobs, as of the look.", "queue", "class", "region", "schema_version"),
		gauge("jobs_by_action", "Quarantined jobs by what may be done with them, as of the look.", "queue", "action"),
		gauge("affected_customers", "Customers with a quarantined job, as of the look.", "queue"),
		gauge("jobs_failed_last_hour", "Jobs of the look that failed in the hour before it.", "queue"),
		gauge("orphans", "Ledger rows whose send deadline had passed before the look, and that have no copy in it.", "queue"),

		gauge("ledger_rows", "Ledger rows of jobs that may still be sent or may have been.", "queue", "state"),
		gauge("ledger_oldest_age_seconds", "Since when the oldest ledger row is in this state.", "queue", "state"),
		gauge("ledger_sample_rows", "Ledger rows changed within the window, on which the next three figures rest.", "queue"),
		gauge("ledger_attempts_rows", "Sampled ledger rows by how many attempts they have had.", "queue", "attempts"),
		gauge("retry_delay_seconds", "From the claim of one attempt to the claim of the next, of sampled rows.", "queue", "percentile"),
		gauge("sending_to_sent_seconds", "From a row's last claim to its being sent, of sampled rows.", "queue", "percentile"),

		gauge("plans", "Plans that wait, are approved, or run.", "queue", "state"),
		gauge("runs", "Runs that have not ended; dead ones were killed, and wait for resume.", "queue", "state"),
		histogram("run_items", "Items of the plans that were run.", "queue"),
		gauge("holds", "Jobs that a person has put on hold.", "queue"),
		counter("verdicts_total", "Verdicts on what the provider's records prove.", "queue", "verdict"),
		counter("provider_answers_total", "Provider's answers that verdicts rest on, by HTTP status.", "queue", "status"),
		counter("closed_items_total", "Items of runs by how they were closed.", "queue", "result"),
		counter("publishes_total", "Publishes of runs by their outcome.", "queue", "result"),
		counter("duplicates_prevented_total", "Items that were settled or stopped because the job had been sent already.", "queue"),
		histogram("approval_to_close_seconds", "From the last approval of a plan to the close of each of its items.", "queue"),
		counter("audit_records_total", "Records in the audit log, of all queues."),
	}
}
