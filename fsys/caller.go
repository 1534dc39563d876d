package fsys

import "context"

// A Caller is the attached client, as the transport or a token proved it. It is
// a fact for records ("from"), not a right: rights are in the tree that the
// caller was given.
type Caller string

// Operator is the caller on the operator's own socket.
const Operator Caller = "operator"

type callerKey struct{}

// WithCaller returns a context whose operations are c's.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

type credentialKey struct{}

// WithCredential is WithCaller for who has proved to be c by what is called by:
// a token, or a socket.
func WithCredential(ctx context.Context, c Caller, by string) context.Context {
	return WithCaller(context.WithValue(ctx, credentialKey{}, by), c)
}

// CredentialOf returns what the caller has proved itself by. Limits count by it:
// several may act in the name of one caller. It is the caller where nobody said.
func CredentialOf(ctx context.Context) string {
	if by, ok := ctx.Value(credentialKey{}).(string); ok {
		return by
	}
	return string(CallerOf(ctx))
}

// CallerOf returns the caller of a request; empty if it is unknown.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}

type tokenKey struct{}

// WithToken returns a context whose operations came with the token of this id.
// Like the caller it is a fact for records: work that waits finds out by it
// whether who asked for it still may.
func WithToken(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, tokenKey{}, id)
}

// TokenOf returns the id of the token that an operation came with, or nothing.
func TokenOf(ctx context.Context) string {
	id, _ := ctx.Value(tokenKey{}).(string)
	return id
}

// joined has the values that held when a handle was opened and is cancelled
// with the operation at hand.
type joined struct {
	context.Context
	opened context.Context
}

func (j joined) Value(key any) any {
	if v := j.opened.Value(key); v != nil {
		return v
	}
	return j.Context.Value(key)
}

// Join returns op with the values of opened, for a handle that acts later in
// the name of who opened it.
func Join(op, opened context.Context) context.Context { return joined{op, opened} }
