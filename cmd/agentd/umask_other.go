//go:build !unix

package main

func privateUmask() (restore func()) { return func() {} }
