package cmd

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// manPages adds one manual page for each visible command. A page has no date, so
// that it changes only with what it says.
func manPages(c *cobra.Command, files map[string][]byte) error {
	if c.Hidden {
		return nil
	}
	page, err := manPage(c)
	if err != nil {
		return fmt.Errorf("manual page of %s: %w", c.CommandPath(), err)
	}
	files["docs/man/"+strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"] = page
	for _, sub := range c.Commands() {
		if err := manPages(sub, files); err != nil {
			return err
		}
	}
	return nil
}

func manPage(c *cobra.Command) ([]byte, error) {
	c.DisableAutoGenTag = true
	long := c.Long
	c.Long = string(codeBlock([]byte(long)))
	defer func() { c.Long = long }()
	header := &doc.GenManHeader{Section: "1", Source: "redrivectl", Manual: "redrivectl", Date: &time.Time{}}
	var b bytes.Buffer
	if err := doc.GenMan(c, header, &b); err != nil {
		return nil, err
	}
	return bytes.Replace(b.Bytes(), []byte(`"`+time.Time{}.Format("Jan 2006")+`"`), []byte(`""`), 1), nil
}
