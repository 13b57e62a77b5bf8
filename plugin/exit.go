package plugin

import (
	"errors"
	"fmt"
	"io/fs"
)

// Exit statuses, the same for every command and output format.
const (
	ExitOK     = 0 // done
	ExitYes    = 1 // the command's question was answered "yes": findings, differences, a tripped gate
	ExitUsage  = 2 // the command line is wrong
	ExitUnread = 3 // something that was needed could not be read (or the report not written); what was read is reported. Beats ExitYes
)

// exitError ends the command with a status. Without a cause nothing more is
// printed: the report said it all.
type exitError struct {
	status int
	cause  error
}

func (e *exitError) Error() string {
	if e.cause == nil {
		return fmt.Sprintf("exit status %d", e.status)
	}
	return e.cause.Error()
}

func (e *exitError) Unwrap() error { return e.cause }

// usageError says what is wrong with the command line.
func usageError(format string, args ...any) error {
	return &exitError{status: ExitUsage, cause: fmt.Errorf(format, args...)}
}

// unreadError says what could not be read at all.
func unreadError(err error) error { return &exitError{status: ExitUnread, cause: err} }

// statusOf is the exit status for what a command returned.
func statusOf(err error) int {
	var exit *exitError
	var file *fs.PathError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &exit):
		return exit.status
	case errors.As(err, &file) && file.Op == "write": // of what has no report
		return ExitUnread
	}
	return ExitUsage // cobra's own errors: unknown command
}
