package sqs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"github.com/redrivectl/redrivectl/internal/broker"
)

// throttles are the codes by which the service asks to slow down.
var throttles = []string{
	"RequestThrottled", "Throttling", "ThrottlingException", "TooManyRequestsException", "RequestLimitExceeded", "KmsThrottled",
}

// denials are the codes of credentials that permit nothing, beside the codes of
// denied actions and keys, which meaning knows by how they begin.
var denials = []string{
	"InvalidSecurity", "InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId", "MissingAuthenticationToken",
	"SignatureDoesNotMatch", "IncompleteSignature", "ExpiredToken", "ExpiredTokenException", "OptInRequired",
}

// missing are the codes of a queue that is not there.
var missing = []string{"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "QueueDeletedRecently"}

// unsupported are the codes of an action that the server does not have.
var unsupported = []string{"InvalidAction", "UnknownOperationException", "AWS.SimpleQueueService.UnsupportedOperation", "UnsupportedOperation"}

// lost are the codes of a receipt that holds nothing any more.
var lost = []string{"MessageNotInflight", "ReceiptHandleIsInvalid", "InvalidParameterValue", "InvalidAddress"}

// meaning is the error of the contract that a code stands for, or nil.
func meaning(code string) error {
	switch code = strings.TrimPrefix(code, "AWS.SimpleQueueService."); {
	case slices.Contains(throttles, code):
		return broker.ErrThrottled
	case slices.Contains(missing, code) || code == "NonExistentQueue":
		return broker.ErrNoQueue
	case strings.HasPrefix(code, "Kms") || strings.HasPrefix(code, "AccessDenied") || slices.Contains(denials, code):
		return broker.ErrDenied
	default:
		return nil
	}
}

// codeOf is the service's own code of an error, or empty.
func codeOf(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	return ""
}

// told adds to an error what the contract calls it.
func told(err error) error {
	if known := meaning(codeOf(err)); known != nil {
		return fmt.Errorf("%w: %w", known, err)
	}
	return err
}

// failed is the result of a request that failed whole. It was refused if it
// never left this process, or if the service answered that it will not; anything
// else may have been applied.
func failed(err error, sent bool) broker.Result {
	r := broker.Result{Err: told(err)}
	var answered *awshttp.ResponseError
	switch {
	case !sent:
		r.Outcome = broker.Refused
	case errors.As(err, &answered) && answered.HTTPStatusCode() >= 400 && answered.HTTPStatusCode() < 500 && answered.HTTPStatusCode() != http.StatusRequestTimeout:
		r.Outcome = broker.Refused
	}
	return r
}

// entryFailed is the result of one entry of a batch that failed alone. One that
// the service blames on itself may have been applied, unless it was throttled.
func entryFailed(e types.BatchResultErrorEntry) broker.Result {
	code := text(e.Code)
	err := fmt.Errorf("%s: %s", code, text(e.Message))
	known := meaning(code)
	if known != nil {
		err = fmt.Errorf("%w: %w", known, err)
	}
	if e.SenderFault || known != nil {
		return broker.Result{Outcome: broker.Refused, Err: err}
	}
	return broker.Result{Err: err}
}

// receiptFailed is entryFailed for an operation on a receipt.
func receiptFailed(e types.BatchResultErrorEntry) broker.Result {
	if slices.Contains(lost, strings.TrimPrefix(text(e.Code), "AWS.SimpleQueueService.")) {
		return broker.Result{Outcome: broker.Refused, Err: fmt.Errorf("%w: %s", broker.ErrLeaseLost, text(e.Message))}
	}
	return entryFailed(e)
}

// witness is an HTTP client that notes in the request's context whether it began
// to send: what failed before that was not applied.
type witness struct{ sqs.HTTPClient }

type sentKey struct{}

// noting returns a context that a request notes its sending in.
func noting(ctx context.Context) (context.Context, *bool) {
	sent := new(bool)
	return context.WithValue(ctx, sentKey{}, sent), sent
}

// Do implements the client's interface. It sends a copy of the request's body:
// the client closes its own as soon as the answer begins, which net/http takes
// for a failed write when it is still about to look for the body's end, and then
// cuts the connection in the middle of the answer. A send would be in doubt for
// nothing.
func (w witness) Do(r *http.Request) (*http.Response, error) {
	sent, noted := r.Context().Value(sentKey{}).(*bool)
	if r.Body != nil {
		body := bytes.NewBuffer(make([]byte, 0, max(0, r.ContentLength)+bytes.MinRead)) // the room that reading asks for
		if _, err := body.ReadFrom(r.Body); err != nil {
			return nil, err
		}
		r = r.Clone(r.Context())
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body.Bytes())), int64(body.Len())
	}
	resp, err := w.HTTPClient.Do(r)
	if noted && !undialled(err) {
		*sent = true
	}
	return resp, err
}

// undialled reports that no connection was made.
func undialled(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// own is text that may be kept: the client cuts the strings of an answer from one
// block of memory, all of which the shortest of them would hold.
func own(s *string) string { return strings.Clone(text(s)) }
