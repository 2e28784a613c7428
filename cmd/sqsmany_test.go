package cmd

import (
	"bufio"
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/redrivectl/redrivectl/internal/testservers/sqsfake"
)

// manyLook is what one look at a large queue took.
type manyLook struct {
	peak    float64 // MiB of resident memory
	jobs    int
	atFirst int64 // receives that were answered when the first job was printed
	all     int64 // receives that were answered in the end
}

// TestC8ManyMessages lists 100,000 messages of 4 KiB job by job. The first is
// printed long before the last has come, and all that is held of a message is its
// lease, which has to be given back: 1 KiB of memory at most.
func TestC8ManyMessages(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the peak of a process is read as Linux tells it")
	}
	t.Parallel()
	bin := plainBinary(t)
	few, many := lookAtMany(t, bin, 10_000), lookAtMany(t, bin, 100_000)
	if few.jobs != 10_000 || many.jobs != 100_000 {
		t.Errorf("listed %d of 10,000 and %d of 100,000", few.jobs, many.jobs)
	}
	if many.atFirst*10 > many.all {
		t.Errorf("the first job was printed after %d of %d receives", many.atFirst, many.all)
	}
	if each := (many.peak - few.peak) * 1024 / 90_000; few.peak == 0 || few.peak > 96 || each > 1 {
		t.Errorf("the look at 100,000 peaked at %.0f MiB, that at 10,000 at %.0f MiB", many.peak, few.peak)
	}
}

// lookAtMany lists a queue of n messages of 4 KiB with a process of its own.
func lookAtMany(t *testing.T, bin string, n int) manyLook {
	t.Helper()
	s := sqsfake.New(sqsfake.Options{})
	s.CreateQueue("orders-dlq", nil)
	s.CreateQueue("orders", map[string]string{"RedrivePolicy": sqsfake.DeadLetter("orders-dlq", 3)})
	m := sqsfake.Message{Body: strings.Repeat("x", 4096), Source: sqsfake.ARN("orders"), Receives: 3}
	for range n {
		s.Seed("orders-dlq", m)
	}
	var receives atomic.Int64
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".ReceiveMessage") {
			receives.Add(1)
		}
	}))
	defer h.Close()

	home := t.TempDir()
	c := exec.CommandContext(t.Context(), bin, "list", "orders-dlq", "--jobs", "-o", "jsonl")
	c.Dir = home
	c.Env = []string{
		"HOME=" + home, "PATH=" + os.Getenv("PATH"), "AWS_ENDPOINT_URL_SQS=" + h.URL, "AWS_REGION=" + sqsfake.Region,
		"AWS_ACCESS_KEY_ID=k", "AWS_SECRET_ACCESS_KEY=s",
	}
	var problems bytes.Buffer
	c.Stderr = &problems
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	var look manyLook
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if look.jobs == 0 {
			look.atFirst = receives.Load()
		}
		if look.jobs%100 == 0 {
			look.peak = max(look.peak, peakOf(c.Process.Pid))
		}
		look.jobs++
	}
	look.jobs-- // the last line is the envelope
	if err := c.Wait(); err != nil || lines.Err() != nil {
		t.Fatalf("list: %v, %v: %s", err, lines.Err(), &problems)
	}
	look.all = receives.Load()
	return look
}

// peakOf is the peak in MiB of a process that runs, and 0 of one that has ended.
// What the system tells of a child when it has ended counts its parent's pages too.
func peakOf(pid int) (mib float64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	var kib float64
	if _, after, found := strings.Cut(string(status), "VmHWM:"); found {
		_, _ = fmt.Sscan(after, &kib) // what is no number is 0
	}
	return kib / 1024
}
