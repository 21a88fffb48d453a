// SPDX-License-Identifier: MIT OR Apache-2.0

package main

import (
	"fmt"
	"os"
	"runtime/pprof"
)

//go:noinline
func leaf(x int) int {
	s := x
	for i := 0; i < 2000; i++ {
		s += i * x
	}
	return s
}

// Small enough to be inlined into middle.
func inlined(n int) int { return leaf(n) + 1 }

//go:noinline
func middle(n int) int {
	s := 0
	for i := 0; i < n; i++ {
		s += inlined(i)
	}
	return s
}

func main() {
	file, _ := os.Create(os.Args[1])
	pprof.StartCPUProfile(file)
	s := 0
	for i := 0; i < 1200; i++ {
		s += middle(200)
	}
	pprof.StopCPUProfile()
	file.Close()
	fmt.Println(s)
}
