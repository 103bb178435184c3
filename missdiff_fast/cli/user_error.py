"""What the command raises for its user."""


class UserError(Exception):
    """Something that the user can mend, told in one line."""
