"""House rules that a test keeps instead of a reviewer."""
