package config

// checkRules reports where values that are each allowed do not fit together.
func (l *loader) checkRules(c *Config) {
	l.checkListenerRules(c)
}

func (l *loader) checkListenerRules(c *Config) {}
