package kafka

import "syscall"

// ownGroup puts a child in a group of its own, and has the kernel end it when the thread that started it ends.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
