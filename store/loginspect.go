package store

import "context"

// A LogState is what the records of a log come to.
type LogState struct {
	Size  int64    // as recorded
	Whole int64    // how many bytes from the beginning on are there
	Stray []string // blocks behind the end
}

// InspectLog returns the state of the log that s holds. fsys.Internal says that
// its size cannot be read.
func InspectLog(ctx context.Context, s Store) (LogState, error) {
	size, err := logSize(ctx, s)
	if err != nil {
		return LogState{}, err
	}
	state := LogState{Size: size}
	for p, err := range All(ctx, s, blocksPrefix) {
		if err != nil {
			return state, err
		}
		no := state.Whole / blockSize
		switch {
		case p.Key >= blockKey((size+blockSize-1)/blockSize):
			state.Stray = append(state.Stray, p.Key)
		case p.Key == blockKey(no) && state.Whole == no*blockSize:
			state.Whole = min(state.Whole+int64(len(p.Value)), size)
		}
	}
	return state, nil
}
