"""Engines that an agent can stand beside; each implements `kvtune_agent.engine.Engine`."""
