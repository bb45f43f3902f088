"""The audit of the audits: broken twins of real parts, each of which must be caught."""
