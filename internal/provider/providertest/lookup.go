package providertest

import (
	"net/http"
	"strconv"
	"time"
)

// Item is one record as look-ups show it.
type Item struct {
	ID     string    `json:"id"`
	OpID   string    `json:"op_id"`
	Region string    `json:"region,omitempty"`
	Status string    `json:"status"` // "delivered" or "rejected"
	At     time.Time `json:"at"`
}

// Page is the answer to GET /messages. Next is the cursor of the next page.
type Page struct {
	Items []Item `json:"items"`
	Next  string `json:"next,omitempty"`
}

// list answers GET /messages?op_id=…&region=…&from=…&to=…&cursor=…, each
// parameter optional; next is another name for cursor.
func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f := s.faultOf(q.Get("op_id"), OnLookup)
	if !f.pause(r.Context(), Slow) || f.Kind == HangUp {
		hangUp(w)
	}
	if s.failed(w, f) {
		return
	}
	cursor := q.Get("cursor") + q.Get("next")
	start, err := strconv.Atoi(cursor)
	if cursor != "" && (err != nil || start < 0) {
		answer(w, http.StatusBadRequest, map[string]string{"error": "cursor is not one of ours"})
		return
	}
	answer(w, http.StatusOK, s.page(f, s.visible(f, filterOf(q)), start))
}

// failed answers for a look-up that does not work.
func (s *Server) failed(w http.ResponseWriter, f Fault) bool {
	f.headers(w)
	switch f.Kind {
	case Throttle:
		answer(w, http.StatusTooManyRequests, map[string]string{"error": "slow down"})
	case Unavailable:
		answer(w, http.StatusServiceUnavailable, map[string]string{"error": "unavailable"})
	case Forbidden:
		answer(w, http.StatusForbidden, map[string]string{"error": "your plan lacks this add-on"})
	case Redirect:
		w.Header().Set("Location", "/elsewhere")
		answer(w, http.StatusFound, map[string]string{})
	case Malformed:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"items": [`)) // the client is gone if this fails
	default:
		return false
	}
	return true
}

// page cuts one page out of the rows.
func (s *Server) page(f Fault, rows []Item, start int) Page {
	start = min(start, len(rows))
	end := min(start+s.cfg.PageLimit, len(rows))
	p := Page{Items: append([]Item{}, rows[start:end]...)}
	if end < len(rows) && f.Kind != Cut {
		p.Next = strconv.Itoa(end)
	}
	return p
}

type filter struct {
	opID, region string
	from, to     time.Time
}

func filterOf(q map[string][]string) filter {
	get := func(name string) string {
		if vs := q[name]; len(vs) > 0 {
			return vs[0]
		}
		return ""
	}
	at := func(name string) time.Time {
		t, err := time.Parse(time.RFC3339Nano, get(name))
		if err != nil {
			return time.Time{}
		}
		return t
	}
	return filter{opID: get("op_id"), region: get("region"), from: at("from"), to: at("to")}
}

func (f filter) takes(e Entry) bool {
	return (f.opID == "" || e.OpID == f.opID) && (f.region == "" || e.Region == f.region) &&
		(f.from.IsZero() || !e.At.Before(f.from)) && (f.to.IsZero() || !e.At.After(f.to))
}

// visible is every record that a look-up is shown now.
func (s *Server) visible(f Fault, want filter) []Item {
	rows := []Item{}
	if f.Kind == Empty || s.cfg.Region != "" && want.region != "" && want.region != s.cfg.Region {
		return rows
	}
	if f.Kind == Everything {
		want = filter{}
	}
	now := s.cfg.Now()
	for _, e := range s.entries(want.opID) {
		if e.ID == "" || e.Repeat || now.Before(e.VisibleAt) || s.cfg.Retention > 0 && now.Sub(e.At) > s.cfg.Retention || !want.takes(e) {
			continue
		}
		rows = append(rows, e.item())
		if f.Kind == Duplicates {
			rows = append(rows, e.item())
		}
	}
	return rows
}

func (e Entry) item() Item {
	it := Item{ID: e.ID, OpID: e.OpID, Region: e.Region, Status: "delivered", At: e.At}
	if e.Rejected {
		it.Status = "rejected"
	}
	return it
}

// one answers GET /messages/{id}: the record, or 404.
func (s *Server) one(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	f := s.faultOf(id, OnLookup)
	if !f.pause(r.Context(), Slow) || f.Kind == HangUp {
		hangUp(w)
	}
	if s.failed(w, f) {
		return
	}
	for _, it := range s.visible(f, filter{}) {
		if it.ID == id {
			answer(w, http.StatusOK, it)
			return
		}
	}
	answer(w, http.StatusNotFound, map[string]string{"error": "no such message"})
}
