"""One file per command: flags to config, config to function, result to the screen."""
