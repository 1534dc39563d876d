package fsys

// codeOfOS knows nothing on Plan 9, whose errors are strings.
func codeOfOS(error) (Code, bool) { return Internal, false }
