"""What tests of Holdfast, and of programs that use it, stand on: stages that need no network and keep no secrets.

Nothing here is imported by the service itself.
"""
