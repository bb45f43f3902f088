"""Audits: lower bounds on ε, measured from outside the trust boundary, to hold against what the ledger claims."""
