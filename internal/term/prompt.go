package term

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrNoAnswer says that the input ended before an answer was given.
var ErrNoAnswer = errors.New("no answer")

// maxAnswer bounds one answer in bytes.
const maxAnswer = 4096

// Ask puts a question and returns the line that answers it, without the white
// space around it. It reads no byte beyond that line, so that the next question
// finds its own. It fails with ErrNoAnswer where the input ends.
func Ask(in io.Reader, out io.Writer, question string) (string, error) {
	if _, err := fmt.Fprintf(out, "%s ", CleanLines(question)); err != nil {
		return "", fmt.Errorf("ask: %w", err)
	}
	line, err := readLine(in)
	if err != nil {
		return "", fmt.Errorf("ask: %w", err)
	}
	return strings.TrimSpace(line), nil
}

// Confirm asks a question to which only "y" or "yes" means yes.
func Confirm(in io.Reader, out io.Writer, question string) (bool, error) {
	answer, err := Ask(in, out, question+" [y/N]")
	if err != nil {
		return false, err
	}
	switch strings.ToLower(answer) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}

func readLine(in io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); len(line) < maxAnswer; {
		n, err := in.Read(one)
		switch {
		case n == 1 && one[0] == '\n':
			return string(line), nil
		case n == 1:
			line = append(line, one[0])
		case errors.Is(err, io.EOF) && len(line) > 0:
			return string(line), nil
		case errors.Is(err, io.EOF):
			return "", ErrNoAnswer
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return "", err
		}
	}
	return "", fmt.Errorf("answer is longer than %d bytes", maxAnswer)
}
