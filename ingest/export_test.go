package ingest

// Die lets go of what the kernel takes from a process that is killed. The test
// sees to it that nothing is written after.
func (i *Ingest) Die() {
	i.presence.Close()
	i.accepting.f.Close()
	i.deciding.f.Close()
}
