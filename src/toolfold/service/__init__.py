"""Executions that outlive their requests: states, owners and answers, for every interface that holds them."""
