//go:build !linux

package main

func freeOnSignal() {}
