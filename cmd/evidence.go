package cmd

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redrivectl/redrivectl/audit"
	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/spf13/cobra"
)

type evidenceOptions struct {
	app     *app
	job     string
	queue   string
	out     string
	payload bool
	reason  string
	force   bool
	ask     bool
}

func newEvidenceCmd(a *app) *cobra.Command {
	o := &evidenceOptions{app: a}
	c := &cobra.Command{
		Use:   "evidence JOB",
		Short: "Write a bundle about a job for the incident ticket",
		Long: `Write everything that is known of a job into an archive, or a new folder: the job
and the decision on it with what went in, its ledger row and history, verdicts
with their evidence, plans and approvals, its audit records with their place in
the chain and what verifying the log said, and the time line of trace. A MANIFEST
has the SHA-256 of every file, in the form that sha256sum -c reads; its own digest
stands in the audit record of the export, which is made before anything is written.

The bundle holds no payload unless --with-payload is given, and is readable by its
owner alone. The job need not be in a queue any more. A source that does not
answer is named, and the exit code is then 3.`,
		Example: `  redrivectl evidence 7e37a8fe --out ticket-4711.tar.gz
  redrivectl evidence 7e37a8fe --out ticket-4711 --with-payload --reason "support asked for it"`,
		Args: exactArgs("JOB"),
		RunE: func(c *cobra.Command, args []string) error {
			o.job = args[0]
			if err := o.validate(); err != nil {
				return err
			}
			return o.run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&o.out, "out", "", "archive (.tar.gz or .tgz), or a folder that does not exist (default an archive named after JOB)")
	a.queueFlag(c, &o.queue, "look for the job in this queue, its ledger and its provider alone")
	f.BoolVar(&o.payload, "with-payload", false, "add the payload as it is; --reason goes into the audit log")
	f.StringVar(&o.reason, "reason", "", "what the bundle is for (required with --with-payload)")
	f.BoolVar(&o.force, "force", false, "replace an archive that exists")
	f.BoolVar(&o.ask, "ask", false, "ask the provider now")
	return exits(c, exitPartly, exitRefused, exitAudit, exitInterrupted)
}

func (o *evidenceOptions) validate() error {
	switch {
	case o.job == "":
		return usagef("JOB is empty")
	case o.payload && strings.TrimSpace(o.reason) == "":
		return usagef("--with-payload needs --reason: the audit log needs it")
	default:
		o.out = cmp.Or(o.out, evidenceName(o.job))
		return mayWrite(o.out, o.force)
	}
}

// evidenceName is an archive's name of what a file name may have of a job's.
func evidenceName(job string) string {
	name := []rune("evidence-" + job)
	for i, r := range name {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') {
			name[i] = '-'
		}
	}
	return string(name[:min(len(name), 64)]) + ".tar.gz"
}

// evidenceView is the evidence bundle shape of docs/json-output.md.
type evidenceView struct {
	JobKey   *string  `json:"job_key"`
	Out      string   `json:"out"`
	Files    []string `json:"files"`
	Manifest string   `json:"manifest_sha256"`
	Record   string   `json:"audit_seq"`
	Payload  bool     `json:"payload"`
	Verified bool     `json:"audit_verified"`
	Missing  []string `json:"missing"`
}

func (o *evidenceOptions) run(ctx context.Context) error {
	t := &tracer{app: o.app, text: o.job, queue: o.queue, ask: o.ask}
	if err := t.gather(ctx); err != nil {
		return err
	}
	st, err := o.app.store(ctx)
	if err != nil {
		return err
	}
	for _, queue := range t.seenIn() {
		if err := o.app.withinRegion(ctx, st, queue); err != nil {
			return err
		}
	}
	g := &evidenceGatherer{tracer: t, st: st}
	if err := g.gather(ctx); err != nil {
		return err
	}
	if o.payload {
		if g.job == nil {
			return fail(exitFailed, "leave --with-payload out", "the payload of %q: %w", o.job, errNoCopy)
		}
		g.files["payload.bin"] = g.job.Payload
	}
	head, err := o.record(ctx, g)
	if err != nil {
		return err
	}
	if err := g.files.write(o.out, o.force); err != nil {
		return err
	}
	return o.print(g, head)
}

// record says who exported what before anything is written. The digest of the
// manifest ties the bundle to the log.
func (o *evidenceOptions) record(ctx context.Context, g *evidenceGatherer) (audit.Head, error) {
	j := job.Job{JobKey: g.key()}
	if g.job != nil {
		j = *g.job
	}
	rec, err := o.app.jobRecord(g.st, "evidence", o.reason, j)
	if err != nil {
		return audit.Head{}, err
	}
	if g.job == nil {
		rec.MessageID, rec.CopyID = g.names[0].MessageID, g.names[0].CopyID
	}
	rec.Details = map[string]string{
		"manifest_sha256": audit.Hash(g.files.manifest()), "files": strconv.Itoa(len(g.files)), "payload": strconv.FormatBool(o.payload),
	}
	return g.st.Append(ctx, rec)
}

func (o *evidenceOptions) print(g *evidenceGatherer, head audit.Head) error {
	v := evidenceView{
		JobKey: text(g.key()), Out: o.out, Files: append(slices.Sorted(maps.Keys(g.files)), bundleManifest), Manifest: audit.Hash(g.files.manifest()),
		Record: strconv.FormatInt(head.Seq, 10), Payload: o.payload, Verified: g.verified, Missing: append([]string{}, g.missing...),
	}
	r := result{Object: v, Headers: []string{"what", "value"}, Rows: [][]string{
		{"job key", or(v.JobKey)},
		{"written to", v.Out},
		{"files", strconv.Itoa(len(v.Files))},
		{"SHA-256 of MANIFEST", v.Manifest},
		{"audit record", v.Record},
		{"audit log verifies", strconv.FormatBool(v.Verified)},
		{"payload", strconv.FormatBool(v.Payload)},
	}}
	for _, m := range v.Missing {
		r.Rows = append(r.Rows, []string{"missing", m})
	}
	if err := o.app.print(r); err != nil {
		return err
	}
	switch {
	case !g.verified:
		return silently(exitAudit)
	case g.partly:
		return silently(exitPartly)
	default:
		return nil
	}
}
