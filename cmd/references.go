package cmd

import (
	"context"
	"errors"
	"strconv"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/redrivectl/redrivectl/internal/job"
	"github.com/redrivectl/redrivectl/internal/reference"
	"github.com/redrivectl/redrivectl/internal/term"
	"github.com/redrivectl/redrivectl/reconcile"
)

// storage is where the config lets content be read from; nowhere without one.
func (a *app) storage() reference.Storage {
	if a.cfg == nil {
		return reference.Storage{}
	}
	s := reference.Storage{Roots: a.cfg.References.Roots, MaxBytes: int64(a.cfg.References.MaxBytes)}
	if a.cfg.References.S3 {
		s.Objects = a.objectExists
	}
	return s
}

// objectStore is S3, opened when it is first asked; by several batches at once.
type objectStore struct {
	once   sync.Once
	client *s3.Client
	err    error
}

// objectExists asks S3 for the head of an object.
func (a *app) objectExists(ctx context.Context, bucket, key string) (bool, error) {
	o := &a.objects
	o.once.Do(func() {
		var c aws.Config
		c, o.err = awsSettings(ctx, "")
		o.client = s3.NewFromConfig(c, func(o *s3.Options) {
			// A bucket is no host name where the endpoint is not Amazon's.
			o.UsePathStyle = a.getenv("AWS_ENDPOINT_URL_S3") != "" || a.getenv("AWS_ENDPOINT_URL") != ""
		})
	})
	if o.err != nil {
		return false, o.err
	}
	_, err := o.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &bucket, Key: &key})
	var missing *types.NotFound
	if errors.As(err, &missing) {
		return false, nil
	}
	return err == nil, err
}

// references tells the planner and a run what is wrong with what a job points to.
type references struct{ storage reference.Storage }

// Fault implements redrive.References. What is not configured, or carries no
// hash, is not compared, and holds nothing.
func (r references) Fault(ctx context.Context, ref job.Reference) reconcile.Block {
	switch r.storage.Check(ctx, ref).State {
	case reference.Mismatch:
		return reconcile.BlockReferenceMismatch
	case reference.Missing:
		return reconcile.BlockReferenceMissing
	case reference.Unreadable:
		return reconcile.BlockReferenceUnreadable
	default:
		return reconcile.NotBlocked
	}
}

// referenceView is a reference as show lists it.
type referenceView struct {
	N      int     `json:"n"`
	Kind   string  `json:"kind"`
	URI    string  `json:"uri"`
	SHA256 *string `json:"sha256"`
	State  string  `json:"state"`
	Why    *string `json:"why"`
}

func (a *app) referenceViews(ctx context.Context, j job.Job) []referenceView {
	views := []referenceView{}
	for i, r := range j.References {
		res := a.storage().Check(ctx, r)
		views = append(views, referenceView{
			N: i + 1, Kind: r.Kind, URI: term.Mask(r.URI), SHA256: text(r.SHA256), State: string(res.State), Why: text(term.Mask(res.Why)),
		})
	}
	return views
}

func (v referenceView) row() []string {
	value := v.Kind + " " + v.URI + ": " + v.State
	if v.Why != nil {
		value += ", " + *v.Why
	}
	return []string{"reference " + strconv.Itoa(v.N), value}
}

// contentView is the content of a reference, fetched and verified.
type contentView struct {
	N       int         `json:"n"`
	Kind    string      `json:"kind"`
	Payload payloadView `json:"payload"`
}

// content fetches what --reference names: a number, or a kind of which there is
// one. Only what is verified is shown.
func (a *app) content(ctx context.Context, j job.Job, which string, reveal bool) (contentView, error) {
	n, err := whichReference(j, which)
	if err != nil {
		return contentView{}, err
	}
	b, res := a.storage().Fetch(ctx, j.References[n])
	if res.State != reference.Verified {
		return contentView{}, fail(exitFailed, "redrivectl show JOB lists its references", "reference %d cannot be shown (%s): %s", n+1, res.State, term.Mask(res.Why))
	}
	return contentView{n + 1, j.References[n].Kind, newPayloadView(b, term.PayloadOptions{Reveal: reveal})}, nil
}

func whichReference(j job.Job, which string) (int, error) {
	found := -1
	for i, r := range j.References {
		if strconv.Itoa(i+1) == which {
			return i, nil
		}
		if r.Kind != which {
			continue
		}
		if found >= 0 {
			return 0, fail(exitFailed, "name it by its number", "the job has several references of kind %s", which)
		}
		found = i
	}
	if found < 0 {
		return 0, fail(exitFailed, "redrivectl show JOB lists its references", "the job has no reference %q; it has %d", which, len(j.References))
	}
	return found, nil
}

// newPayloadView renders content for reading, masked unless it is revealed.
func newPayloadView(b []byte, o term.PayloadOptions) payloadView {
	p := term.Payload(b, o)
	return payloadView{Form: string(p.Form), Text: p.Text, Bytes: len(b), Cut: p.Cut, Masked: p.Masked}
}
