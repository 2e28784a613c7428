package providertest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
)

// appender is the log file; without one it does nothing.
type appender struct{ f *os.File }

// openLog opens or makes the file and reads what it holds. A last line without
// its end was never answered for, and is cut off.
func openLog(path string) (appender, []Entry, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return appender{}, nil, fmt.Errorf("%w: %w", errLog, err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return appender{}, nil, fmt.Errorf("%w: %w", errLog, err)
	}
	whole := bytes.LastIndexByte(raw, '\n') + 1
	if err := f.Truncate(int64(whole)); err != nil {
		return appender{}, nil, fmt.Errorf("%w: %w", errLog, err)
	}
	var es []Entry
	for line := range bytes.Lines(raw[:whole]) {
		var e Entry
		if err := json.Unmarshal(line, &e); err != nil {
			return appender{}, nil, fmt.Errorf("%w: line %d: %w", errLog, len(es)+1, err)
		}
		es = append(es, e)
	}
	return appender{f}, es, nil
}

// add is durable on return.
func (a appender) add(e Entry) error {
	if a.f == nil {
		return nil
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = a.f.Write(append(line, '\n'))
	}
	if err == nil {
		err = a.f.Sync()
	}
	if err != nil {
		return fmt.Errorf("%w: %w", errLog, err)
	}
	return nil
}

func (a appender) close() error {
	if a.f == nil {
		return nil
	}
	return a.f.Close()
}
