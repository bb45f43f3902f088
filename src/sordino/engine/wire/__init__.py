"""Requests and answers as bytes: one safetensors file a message, with JSON in its header, and no pickle. docs/wire.md says more."""
