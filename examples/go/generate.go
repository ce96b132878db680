// Writes text with a LLaMA model from Go, through cgo.
//
//	go run ./examples/go MODEL [PROMPT]
//
// Without an installation, CGO_CFLAGS and CGO_LDFLAGS say where headers and library are.
package main

/*
#cgo LDFLAGS: -lironbridge
#include <stdlib.h>
#include <ironbridge_llama.h>
*/
import "C"

import (
	"fmt"
	"os"
	"runtime"
	"unsafe"
)

// check ends the program with the library's own sentence. The message is the thread's, which must stay the same.
func check(status C.iron_status) {
	if status != C.IRON_OK {
		name, text := C.GoString(C.iron_status_name(status)), C.GoString(C.iron_last_error())
		fmt.Fprintf(os.Stderr, "%s: %s\n", name, text)
		os.Exit(1)
	}
}

func main() {
	runtime.LockOSThread()
	if len(os.Args) < 2 || len(os.Args) > 3 {
		fmt.Fprintln(os.Stderr, "usage: generate MODEL [PROMPT]")
		os.Exit(2)
	}
	prompt := "Ownership is"
	if len(os.Args) > 2 {
		prompt = os.Args[2]
	}

	var device *C.iron_device
	var model *C.iron_model
	var session *C.iron_session
	path := C.CString(os.Args[1])
	defer C.free(unsafe.Pointer(path))
	check(C.iron_device_open(nil, nil, &device))
	check(C.iron_model_open(device, path, nil, &model))
	check(C.iron_session_create(model, nil, &session))

	text := C.CString(prompt)
	defer C.free(unsafe.Pointer(text))
	length := C.size_t(len(prompt))
	var count C.size_t
	check(C.iron_model_encode_prompt(model, text, length, nil, 0, &count))
	tokens := make([]C.uint32_t, count)
	check(C.iron_model_encode_prompt(model, text, length, &tokens[0], count, &count))

	// Step by step: no Go function is called from C.
	options := C.iron_generation_options{limit: 8}
	options.size = C.size_t(unsafe.Sizeof(options))
	var generation *C.iron_generation
	check(C.iron_generation_create(session, 0, &tokens[0], count, &options, &generation))
	fmt.Print(prompt)
	for {
		var piece C.iron_piece
		piece.size = C.size_t(unsafe.Sizeof(piece))
		check(C.iron_generation_next(generation, &piece))
		fmt.Print(C.GoStringN(piece.text, C.int(piece.text_length)))
		if piece.stop != C.IRON_STOP_NONE {
			break
		}
	}
	fmt.Println()

	check(C.iron_generation_release(generation))
	check(C.iron_session_release(session))
	check(C.iron_model_release(model))
	check(C.iron_device_release(device))
}
