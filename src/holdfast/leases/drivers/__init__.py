"""How each database is reached: one connection, one statement at a time, and what its errors mean.

No statement is written here, and no driver is imported before its database is named.
"""
