"""Doors: transports that turn bytes into requests and answers into bytes. They know no lock rule and not each other."""
