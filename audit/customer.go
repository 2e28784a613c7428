package audit

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// customerKeySize is the length of a key that is made here, in bytes.
const customerKeySize = 32

// CustomerTag is what stands for a customer in records: a keyed HMAC-SHA256 in
// lower-case hex. Without an ID, or without a key, it is empty: an unkeyed hash
// of a short ID is as good as the ID.
func CustomerTag(key []byte, id string) string {
	if id == "" || len(key) == 0 {
		return ""
	}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id))
	return hex.EncodeToString(mac.Sum(nil))
}

// CustomerKey is this machine's own random key for a store, made beside the
// remembered checkpoint (mode 0600) when it is first asked for. It serves where
// no key is configured; records tagged elsewhere carry other tags.
func (m Remembered) CustomerKey(store string) ([]byte, error) {
	path, err := m.path("customer-key", store)
	if err != nil {
		return nil, err
	}
	key, err := os.ReadFile(path)
	if err == nil && len(key) < customerKeySize {
		return nil, fmt.Errorf("customer key %s: shorter than %d bytes", path, customerKeySize)
	}
	if err == nil || !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	return m.makeCustomerKey(path)
}

// makeCustomerKey links the new key into place, so that of two processes that
// make one at the same time both use the first.
func (m Remembered) makeCustomerKey(path string) ([]byte, error) {
	key := make([]byte, customerKeySize)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("make customer key: %w", err)
	}
	own := fmt.Sprintf("%s.%d", path, os.Getpid())
	if err := writeDurably(own, key); err != nil {
		return nil, fmt.Errorf("make customer key: %w", err)
	}
	linked := os.Link(own, path)
	if err := os.Remove(own); err != nil {
		return nil, fmt.Errorf("make customer key: %w", err)
	}
	if errors.Is(linked, fs.ErrExist) {
		return os.ReadFile(path)
	}
	if linked != nil {
		return nil, fmt.Errorf("make customer key: %w", linked)
	}
	return key, syncDir(m.Dir)
}
