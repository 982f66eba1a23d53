"""Access control of the HTTP interface: authentication, tokens, rate limits and throttling."""
