"""What the entries say of the legacy sender: its rules where they lead to a difference, retold apart from its model.

They are told again, in other terms than those of ``differential.subjects.native``, so that an entry
means what the sender is known to do and not whatever its model happens to do.
"""
