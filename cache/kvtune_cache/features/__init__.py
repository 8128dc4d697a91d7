"""Features of requests that policies and the twin learn from, online and in bounded memory."""
