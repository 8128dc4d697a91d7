"""The control plane process: reads the world, asks the tuner, writes the world."""
