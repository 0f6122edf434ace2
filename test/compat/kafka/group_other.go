//go:build !linux

package kafka

import "syscall"

// ownGroup puts a child in a group of its own. Elsewhere than on Linux a killed parent leaves its children running.
func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
